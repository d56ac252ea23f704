// Codec: how gradients are packed for the way to the other ranks.
//
// A codec is either elementwise (one number of another type per element, which any all-reduce sums) or packed (bytes
// that only it can read; collectives/compressed.h sums them by unpacking). What a lossy codec leaves out of a step is
// kept by the caller and joins the next one (error feedback), so that nothing is lost for ever.
//
// One thread uses a codec at a time; it holds settings and room to work in, no gradients. The same input gives the same
// bytes. What is not finite never arrives as something finite (it may take its block with it), so that whoever looks at
// the sum notices.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "paceline/core/registry.h"
#include "paceline/core/tensor_view.h"

namespace paceline {

// What a recipe says of codecs; each uses what it needs.
struct CodecOptions {
  double density = 0.01;       // topk: the share of elements that is sent, at the end of the warm-up
  bool density_warmup = true;  // topk: 25 %, 6.25 %, 1.56 % ... in the first epochs, until the density is reached
  double threshold = 1e-3;     // threshold: elements of at least this magnitude are sent
  size_t block = 256;          // int8, onebit: elements that share a scale
  bool scaled = false;         // fp16: values come with a loss scale, and steps that overflow are skipped
  int ranks = 1;               // fp16: how many ranks' values are summed on the way
};

// How values travel as 16-bit numbers, for those who convert them elsewhere: on a device.
struct HalfWire {
  DType dtype;
  float scale;          // they travel multiplied by it, a power of two
  bool scaled = false;  // values come with a loss scale: a sum that does not fit shall be infinite, its step is skipped
};

class Codec {
 public:
  virtual ~Codec() = default;

  virtual std::string name() const = 0;
  virtual bool lossy() const = 0;  // wants error feedback

  // Elementwise codecs: the type that travels. Packed ones: nothing.
  virtual std::optional<DType> wire_dtype() const { return {}; }
  virtual std::optional<HalfWire> half_wire() const { return {}; }  // of those whose type has 16 bits

  // The most bytes that `count` elements take; packed codecs with fixed_length() always take exactly these.
  virtual size_t most_bytes(size_t count) const = 0;
  virtual bool fixed_length() const { return true; }
  // For people and for `explain`: bytes of f32 for one byte on the wire, for many elements.
  virtual double ratio() const = 0;

  // Packs `values` and returns the bytes used. Where `lost` is not empty (it may be `values` itself),
  // lost[i] = values[i] - what decode() will give for it, or 0 where that is not finite: a step that has to be thrown
  // away must not spoil the next ones. REQUIRES: wire.size() >= most_bytes(values.size()), aligned to 4 bytes, here as
  // in decode().
  virtual size_t encode(std::span<const float> values, std::span<std::byte> wire, std::span<float> lost) const = 0;
  // REQUIRES: the bytes that encode() or encode_sum() used, for as many values.
  virtual void decode(std::span<const std::byte> wire, std::span<float> values) const = 0;      // values = ...
  virtual void decode_add(std::span<const std::byte> wire, std::span<float> values) const = 0;  // values += ...

  // The sum of what `ranks` ranks sent, on its way back to all of them. By default as encode(). A sparse codec sends
  // all that is not zero, so it needs more room and loses nothing.
  virtual size_t most_sum_bytes(size_t count, int ranks) const;
  virtual size_t encode_sum(std::span<const float> sum, std::span<std::byte> wire, std::span<float> lost,
                            int ranks) const;
  virtual bool fixed_sum_length() const { return fixed_length(); }

  // Settings that change in the course of a training. Called with the same epoch on every rank.
  virtual void set_epoch(double) {}

 protected:
  // Throws InternalError where a caller did not keep to the contract of encode().
  void check_room(std::span<const float> values, std::span<const std::byte> wire, std::span<const float> lost,
                  size_t most_bytes) const;
};

using CodecFactory = std::function<std::unique_ptr<Codec>(const CodecOptions&)>;

// none (elementwise f32), fp16, bf16, int8, onebit, topk, threshold. A program adds its own.
Registry<CodecFactory> builtin_codecs();

}  // namespace paceline
