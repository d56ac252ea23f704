#include "paceline/train/forward_search.h"

#include <ATen/record_function.h>

#include <unordered_map>

namespace paceline {
namespace {

// libtorch tells of every operation, but knows nothing of modules: an operation that takes a parameter begins the layer
// which owns it, and what follows belongs to that layer until the next one begins.
struct Search {
  std::unordered_map<const c10::TensorImpl*, std::string> owners;  // of parameters
  std::string layer = "the input";
  int depth = 0;  // of operations in operations: only the model's own count, whose inner ones use raw memory
  std::optional<std::string> found;
};

// Callbacks are plain functions: this is how they find the search of their thread, while it lasts.
thread_local Search* search_of_thread = nullptr;

bool is_finite(const torch::Tensor& tensor) {
  return !tensor.defined() || !tensor.is_floating_point() || torch::isfinite(tensor).all().item<bool>();
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  Search& search = *search_of_thread;
  search.depth += 1;
  for (const c10::IValue& input : function.inputs()) {
    if (!input.isTensor()) continue;
    const auto owner = search.owners.find(input.toTensor().unsafeGetTensorImpl());
    if (owner != search.owners.end()) search.layer = owner->second;
  }
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  Search& search = *search_of_thread;
  search.depth -= 1;
  if (search.found || search.depth > 0) return;
  const std::string_view name = function.name();
  if (name.starts_with("aten::empty")) return;  // gives what was in the memory
  const at::DisableRecordFunctionGuard not_of_our_own;
  for (const c10::IValue& output : function.outputs())
    if (output.isTensor() && !is_finite(output.toTensor())) search.found = search.layer;
}

class Watch {
 public:
  explicit Watch(Search& search) {
    search_of_thread = &search;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~Watch() {
    at::removeCallback(handle_);
    search_of_thread = nullptr;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  at::CallbackHandle handle_ = 0;
};

}  // namespace

std::optional<std::string> first_layer_not_finite(const Model& model, const std::function<void()>& forward) {
  Search search;
  for (const auto& module : model.named_modules())
    for (const auto& parameter : module.value()->named_parameters(/*recurse=*/false))
      search.owners.emplace(parameter.value().unsafeGetTensorImpl(),
                            module.key().empty() ? parameter.key() : module.key());
  const torch::NoGradGuard no_grad;
  const Watch watch(search);
  forward();
  return search.found;
}

}  // namespace paceline
