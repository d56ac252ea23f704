// Debian's libgloo-dev installs headers that include this one, but not this one. Searched after the system's folders,
// so that a complete package wins.
//
// Only the sizes matter: whatever makes, copies or destroys these lies in the library, so nothing is defined here.
#pragma once

#include <memory>

namespace gloo {

template <class T>
class ShareableNonOwningPtr {
 public:
  explicit ShareableNonOwningPtr(T* object);
  ~ShareableNonOwningPtr();

 private:
  std::shared_ptr<T> ptr_;
};

template <class T>
class WeakNonOwningPtr {
 public:
  WeakNonOwningPtr();
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>& of);

 private:
  std::weak_ptr<T> ptr_;
};

template <class T>
class NonOwningPtr {
 public:
  NonOwningPtr();

 private:
  std::shared_ptr<T> ptr_;
};

}  // namespace gloo
