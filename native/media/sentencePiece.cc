// SentencePiece models: training, encoding, decoding.
#include "media/sentencePiece.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>

#include "media/task.h"

namespace serac {
namespace {

using sentencepiece::SentencePieceProcessor;

// Tells our handles from other externals.
constexpr napi_type_tag processorTag = {0x5e7ac5e2a1c04d5bULL, 0x9f3b6a1d2c8e4710ULL};

SentencePieceProcessor& toProcessor(napi_env env, napi_value v) {
  bool ours = false;
  if (napi_check_object_type_tag(env, v, &processorTag, &ours) != napi_ok || !ours) throw std::runtime_error("internal: not a SentencePiece handle");
  void* data = nullptr;
  check(env, napi_get_value_external(env, v, &data));
  return *static_cast<SentencePieceProcessor*>(data);
}

void require(const sentencepiece::util::Status& status, const char* code) {
  if (!status.ok()) throw CodedError(code, status.error_message());
}

// loadModel(bytes): handle
napi_value loadModel(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<1> args(env, info);
    Bytes bytes = toBytes(env, args[0]);
    auto processor = std::make_unique<SentencePieceProcessor>();
    require(processor->LoadFromSerializedProto({reinterpret_cast<const char*>(bytes.data), bytes.size}), "TEXT_NOT_A_MODEL");
    if (processor->GetPieceSize() < 1) throw CodedError("TEXT_NOT_A_MODEL", "a model without pieces");
    napi_value handle;
    check(env, napi_create_external(
                   env, processor.get(), [](napi_env, void* data, void*) { delete static_cast<SentencePieceProcessor*>(data); }, nullptr, &handle));
    processor.release();
    check(env, napi_type_tag_object(env, handle, &processorTag));
    return handle;
  });
}

napi_value encodeIds(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<2> args(env, info);
    std::vector<int> ids;
    require(toProcessor(env, args[0]).Encode(toString(env, args[1]), &ids), "TEXT_NOT_A_MODEL");
    return fromVector(env, napi_int32_array, ids);
  });
}

napi_value encodePieces(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<2> args(env, info);
    std::vector<std::string> pieces;
    require(toProcessor(env, args[0]).Encode(toString(env, args[1]), &pieces), "TEXT_NOT_A_MODEL");
    napi_value list;
    check(env, napi_create_array_with_length(env, pieces.size(), &list));
    for (size_t i = 0; i < pieces.size(); i++) check(env, napi_set_element(env, list, static_cast<uint32_t>(i), fromString(env, pieces[i])));
    return list;
  });
}

// decodeIds(handle, Int32Array): string. libsentencepiece reads past its table for an id outside of it, so ids are checked here.
napi_value decodeIds(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<2> args(env, info);
    SentencePieceProcessor& processor = toProcessor(env, args[0]);
    Bytes bytes = toBytes(env, args[1]);
    std::vector<int> ids(bytes.size / sizeof(int));
    if (!ids.empty()) std::memcpy(ids.data(), bytes.data, ids.size() * sizeof(int));
    const int size = processor.GetPieceSize();
    for (int id : ids) {
      if (id < 0 || id >= size) throw CodedError("TEXT_BAD_ID", "token " + std::to_string(id) + " is not in 0.." + std::to_string(size - 1));
    }
    std::string text;
    require(processor.Decode(ids, &text), "TEXT_BAD_ID");
    return fromString(env, text);
  });
}

napi_value vocabSize(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<1> args(env, info);
    return fromDouble(env, toProcessor(env, args[0]).GetPieceSize());
  });
}

napi_value unknownId(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<1> args(env, info);
    return fromDouble(env, toProcessor(env, args[0]).unk_id());
  });
}

napi_value idToPiece(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<2> args(env, info);
    SentencePieceProcessor& processor = toProcessor(env, args[0]);
    const int64_t id = toInt(env, args[1]);
    const int size = processor.GetPieceSize();
    if (id < 0 || id >= size) throw CodedError("TEXT_BAD_ID", "token " + std::to_string(id) + " is not in 0.." + std::to_string(size - 1));
    return fromString(env, processor.IdToPiece(static_cast<int>(id)));
  });
}

napi_value pieceToId(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<2> args(env, info);
    return fromDouble(env, toProcessor(env, args[0]).PieceToId(toString(env, args[1])));
  });
}

// Lines of one block of text.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<char>& text) : text_(text) { Next(); }
  bool done() const override { return done_; }
  void Next() override {
    if (at_ >= text_.size()) {
      done_ = true;
      return;
    }
    size_t end = at_;
    while (end < text_.size() && text_[end] != '\n') end++;
    line_.assign(text_.data() + at_, end - at_);
    at_ = end + 1;
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return sentencepiece::util::Status(); }

 private:
  const std::vector<char>& text_;
  size_t at_ = 0;
  bool done_ = false;
  std::string line_;
};

struct TrainTask : Task {
  std::vector<char> text;
  std::unordered_map<std::string, std::string> options;
  std::string model;

  void run() override {
    Lines lines(text);
    require(sentencepiece::SentencePieceTrainer::Train(options, &lines, &model), "TEXT_TRAIN_FAILED");
  }
  napi_value result(napi_env env) override {
    const std::vector<uint8_t> bytes(model.begin(), model.end());
    return fromVector(env, napi_uint8_array, bytes);
  }
};

// trainModel(text bytes, one sentence a line, options { name: string }): Promise<Uint8Array>
napi_value trainModel(napi_env env, napi_callback_info info) {
  return guard(env, [&] {
    Args<2> args(env, info);
    auto task = std::make_unique<TrainTask>();
    Bytes bytes = toBytes(env, args[0]);
    task->text.assign(bytes.data, bytes.data + bytes.size);
    napi_value names;
    uint32_t count = 0;
    check(env, napi_get_property_names(env, args[1], &names));
    check(env, napi_get_array_length(env, names, &count));
    for (uint32_t i = 0; i < count; i++) {
      napi_value name, value;
      check(env, napi_get_element(env, names, i, &name));
      check(env, napi_get_property(env, args[1], name, &value));
      task->options[toString(env, name)] = toString(env, value);
    }
    return launch(env, std::move(task));
  });
}

}  // namespace

void exportSentencePiece(napi_env env, napi_value exports) {
  exportFunction(env, exports, "loadModel", loadModel);
  exportFunction(env, exports, "encodeIds", encodeIds);
  exportFunction(env, exports, "encodePieces", encodePieces);
  exportFunction(env, exports, "decodeIds", decodeIds);
  exportFunction(env, exports, "vocabSize", vocabSize);
  exportFunction(env, exports, "unknownId", unknownId);
  exportFunction(env, exports, "idToPiece", idToPiece);
  exportFunction(env, exports, "pieceToId", pieceToId);
  exportFunction(env, exports, "trainModel", trainModel);
}

}  // namespace serac
