#include "paceline/models/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "paceline/core/error.h"
#include "paceline/core/file.h"

namespace paceline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest()
      : path_(std::filesystem::path(testing::TempDir()) /
              (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".safetensors")) {}
  ~SafetensorsTest() override { std::filesystem::remove(path_); }

  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  // A file with this header and this many bytes of data.
  void put(const std::string& header, size_t data_bytes) const {
    const uint64_t length = header.size();
    put(std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(data_bytes, '\0'));
  }

  std::string refusal() const {
    try {
      read_safetensors(path_);
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path_.filename().string()));
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path path_;
};

TEST_F(SafetensorsTest, WhatWasWrittenIsRead) {
  const NamedTensors tensors = {
      {"f64", torch::tensor({1.5, -2.5}, torch::kFloat64)},
      {"f32", torch::arange(6, torch::kFloat32).reshape({2, 3})},
      {"f16", torch::tensor({0.1f, 65504.0f, 1e-7f}).to(torch::kFloat16)},
      {"bf16", torch::tensor({0.1f, 1e38f}).to(torch::kBFloat16)},
      {"i64", torch::tensor(int64_t{-1} << 62)},
      {"i32", torch::tensor({-1, 2}, torch::kInt32)},
      {"u8", torch::tensor({0, 255, 7}, torch::kUInt8)},
      {"bool", torch::tensor({true, false, true})},
      {"empty", torch::empty({3, 0})},
      {"transposed", torch::arange(6, torch::kFloat32).reshape({2, 3}).t()},
      {"näme \"quoted\"", torch::ones({1})},
  };
  write_safetensors(path_, tensors, {{"step", "17"}, {"note", "ü\n"}});
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"step", "17"}, {"note", "ü\n"}}));
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor& read = file.tensors.at(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(read.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(read.equal(tensor)) << name;
  }
}

TEST_F(SafetensorsTest, NanAndMinusZeroKeepTheirBits) {
  const float numbers[] = {-0.0f, std::bit_cast<float>(0x7fc01234u), std::bit_cast<float>(1u)};
  write_safetensors(path_, {{"x", torch::tensor({numbers[0], numbers[1], numbers[2]})}});
  const torch::Tensor read = read_safetensors(path_).tensors.at("x");
  EXPECT_EQ(std::memcmp(read.data_ptr(), numbers, sizeof numbers), 0);
}

TEST_F(SafetensorsTest, NothingIsAFileToo) {
  write_safetensors(path_, {});
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_TRUE(file.metadata.empty());
}

TEST_F(SafetensorsTest, TensorsAreAlignedAndTheBytesAreFixed) {
  write_safetensors(
      path_,
      {{"a", torch::ones({3}, torch::kUInt8)}, {"b", torch::ones({1})}, {"c", torch::ones({1}, torch::kFloat64)}});
  const std::string bytes = read_file(path_);
  const std::string header =
      R"({"c":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},)"
      R"("a":{"dtype":"U8","shape":[3],"data_offsets":[12,15]}})";
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes.substr(8, header.size()), header);
  EXPECT_EQ(bytes.size(), 8 + length + 15);
}

TEST_F(SafetensorsTest, AMissingFileIsAFileError) {
  EXPECT_THROW(read_safetensors("/nowhere/w.safetensors"), FileError);
  EXPECT_THROW(read_safetensors(testing::TempDir()), FileError);
  EXPECT_THROW(write_safetensors("/nowhere/w.safetensors", {}), FileError);
}

TEST_F(SafetensorsTest, WritingWhatTheFormatCannotHoldIsABug) {
  EXPECT_THROW(write_safetensors(path_, {{"x", torch::zeros({1}, torch::kComplexFloat)}}), InternalError);
  EXPECT_THROW(write_safetensors(path_, {{"__metadata__", torch::zeros({1})}}), InternalError);
  EXPECT_THROW(write_safetensors(path_, {{"\xff", torch::zeros({1})}}), InternalError);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SafetensorsTest, EveryCutOffFileIsRefused) {
  write_safetensors(path_, {{"weight", torch::ones({2, 2})}, {"bias", torch::ones({2}, torch::kUInt8)}});
  const std::string whole = read_file(path_);
  for (size_t length = 0; length < whole.size(); ++length) {
    put(whole.substr(0, length));
    EXPECT_NE(refusal(), "accepted") << length << " of " << whole.size() << " bytes";
  }
  put(whole);
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(SafetensorsTest, ATooLongFileIsRefused) {
  put(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5);
  EXPECT_THAT(refusal(), HasSubstr("expected 4 bytes of tensors, found 5"));
}

TEST_F(SafetensorsTest, AGiantHeaderIsRefusedBeforeItIsAllocated) {
  put(std::string(8, '\xff') + "{}");
  EXPECT_THAT(refusal(), HasSubstr("18446744073709551615 bytes"));
  put(std::string("\xff\xff\0\0\0\0\0\0", 8) + "{}");
  EXPECT_THAT(refusal(), HasSubstr("expected a header of 65535 bytes, found 2"));
}

TEST_F(SafetensorsTest, FilesOfPyTorchAreRefusedWithTheWayOut) {
  put(std::string("PK\x03\x04\0\0\x08\x08\0\0", 10));  // torch.save()
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("this is a PyTorch zip"), HasSubstr("safetensors.torch.save_file(torch.load(")));
  put(std::string("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9", 9));  // its early versions
  EXPECT_THAT(refusal(), HasSubstr("this is a PyTorch pickle"));
  put(std::string("\x80\x02\0\0\0\0\0\0", 8) + "{}");  // a header of 640 bytes begins alike
  EXPECT_THAT(refusal(), HasSubstr("expected a header of 640 bytes"));
}

TEST_F(SafetensorsTest, AGiantTensorIsRefusedBeforeItIsAllocated) {
  put(R"({"x":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}})", 4);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'x'"), HasSubstr("4000000000000"), HasSubstr("only 4 bytes")));
  put(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0);
  EXPECT_THAT(refusal(), HasSubstr("larger than any memory"));
  put(R"({"x":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0);
  EXPECT_THAT(refusal(), HasSubstr("larger than any memory"));
}

TEST_F(SafetensorsTest, OverlapsAndHolesAreRefused) {
  put(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
      7);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'b' begins at byte 3, before"), HasSubstr("at 4")));
  put(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
      9);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'b' begins at byte 5, beyond"), HasSubstr("at 4")));
  put(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5);
  EXPECT_THAT(refusal(), HasSubstr("'a' begins at byte 1"));
}

TEST_F(SafetensorsTest, ABoolIsZeroOrOne) {
  put(R"({"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2);
  std::fstream(path_, std::ios::binary | std::ios::in | std::ios::out).seekp(-1, std::ios::end).put(2);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'x'"), HasSubstr("found 2")));
}

TEST_F(SafetensorsTest, AnEmptyTensorBetweenOthersIsNoOverlap) {
  put(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},)"
      R"("c":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
      2);
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(SafetensorsTest, EveryMalformedHeaderIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no JSON"},
      {"{", "no JSON"},
      {"{} x", "no JSON"},
      {"{\"\xff\":1}", "no JSON"},
      {"[]", "array"},
      {"3", "number"},
      {R"({"x":1})", "'x' is described by no object"},
      {R"({"x":{}})", "'x' has no dtype"},
      {R"({"x":{"dtype":"F32"}})", "'x' has no shape"},
      {R"({"x":{"dtype":"F32","shape":[0]}})", "'x' has no data_offsets"},
      {R"({"x":{"dtype":"F33","shape":[0],"data_offsets":[0,0]}})", "F33; known are F64"},
      {R"({"x":{"dtype":7,"shape":[0],"data_offsets":[0,0]}})", "type number"},
      {R"({"x":{"dtype":"F32","shape":0,"data_offsets":[0,0]}})", "shape is no list"},
      {R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", "shape holds"},
      {R"({"x":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "shape holds"},
      {R"({"x":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})", "shape holds"},
      {R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[0]}})", "expected 2 data_offsets, found 1"},
      {R"({"x":{"dtype":"F32","shape":[0],"data_offsets":[-1,0]}})", "data_offsets holds"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "F32 of shape [1] take 4 bytes"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "F32 of shape [2] take 8 bytes"},
      {R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       "'x' twice"},
      {R"({"x":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}})", "'shape' twice"},
      {R"({"__metadata__":[]})", "__metadata__ is no object"},
      {R"({"__metadata__":{"step":1}})", "'step' is no text"},
  };
  for (const auto& [header, expected] : cases) {
    put(header, 4);
    EXPECT_THAT(refusal(), HasSubstr(expected)) << header;
  }
  std::string shape;
  for (int i = 0; i < 65; ++i) shape += i == 0 ? "1" : ",1";
  put(R"({"x":{"dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[0,4]}})", 4);
  EXPECT_THAT(refusal(), HasSubstr("65 dimensions"));
}

}  // namespace
}  // namespace paceline
