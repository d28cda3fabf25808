// Translates the lines of standard input by a folder of `pet-fairseq export --to onnx`, greedily:
//
//     translate FOLDER < TEXT

#include <onnxruntime_cxx_api.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

using Numbers = std::vector<int64_t>;  // of words
using Path = std::filesystem::path;
using nlohmann::json;

json read(const Path& file) {
  std::ifstream stream(file);
  const json content = json::parse(stream, nullptr, false);
  if (content.is_discarded()) throw std::runtime_error(file.string() + ": no such file or no JSON");
  return content;
}

// A graph of ONNX Runtime, whose inputs keep their values until they get others.
class Graph {
 public:
  Graph(Ort::Env& env, const Path& folder, const std::string& name)
      : session(env, file(folder / "onnx", name).c_str(), options()), binding(session) {}

  void set(const std::string& name, const Ort::Value& value) {
    binding.BindInput(name.c_str(), value);
  }

  void set(const std::string& name, const Numbers& row) {
    const int64_t shape[] = {1, static_cast<int64_t>(row.size())};
    auto value = Ort::Value::CreateTensor<int64_t>(allocator, shape, 2);
    std::copy(row.begin(), row.end(), value.GetTensorMutableData<int64_t>());
    set(name, value);
  }

  // Makes each cache of words empty: 1 x heads x words x width of a head.
  void clear_caches() {
    for (size_t i = 0; i < session.GetInputCount(); i++) {
      const std::string name = session.GetInputNameAllocated(i, allocator).get();
      if (name.rfind("past", 0) != 0) continue;
      auto shape = session.GetInputTypeInfo(i).GetTensorTypeAndShapeInfo().GetShape();
      shape[0] = 1;
      shape[2] = 0;
      set(name, Ort::Value::CreateTensor<float>(allocator, shape.data(), shape.size()));
    }
  }

  // The outputs by their names.
  std::unordered_map<std::string, Ort::Value> run() {
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    for (size_t i = 0; i < session.GetOutputCount(); i++) {  // each run has outputs of other sizes
      binding.BindOutput(session.GetOutputNameAllocated(i, allocator).get(), memory);
    }
    session.Run(Ort::RunOptions{}, binding);
    const auto names = binding.GetOutputNames();
    auto values = binding.GetOutputValues();
    std::unordered_map<std::string, Ort::Value> outputs;
    for (size_t i = 0; i < names.size(); i++) outputs.emplace(names[i], std::move(values[i]));
    return outputs;
  }

 private:
  static Path file(const Path& folder, const std::string& name) {
    const Path rounded = folder / (name + "_quantized.onnx");  // with weights in 8 bits
    return std::filesystem::exists(rounded) ? rounded : folder / (name + ".onnx");
  }

  static Ort::SessionOptions options() {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);  // the matrices of a student and a sentence are small
    return options;
  }

  Ort::AllocatorWithDefaultOptions allocator;
  Ort::Session session;
  Ort::IoBinding binding;
};

class Student {
 public:
  explicit Student(const Path& folder)
      : encoder(env, folder, "encoder_model"),
        decoder(env, folder, "decoder_model_merged"),
        config(read(folder / "config.json")),
        numbers(read(folder / "vocab.json")) {
    const auto status = pieces.Load((folder / "source.spm").string());
    if (!status.ok()) throw std::runtime_error(status.ToString());
    const json target = read(folder / "target_vocab.json");
    for (const auto& [word, number] : target.items()) words[number] = word;
  }

  std::string translate(const std::string& text) {
    const auto source = segment(text);
    return source.empty() ? "" : text_of(search(numbers_of(source)));
  }

 private:
  // The pieces of a text, as many as the model reads; a language token in front is one of them.
  std::vector<std::string> segment(const std::string& text) const {
    const size_t token = token_length(text);
    auto source = pieces.EncodeAsPieces(text.substr(token));
    if (token > 0) source.insert(source.begin(), text.substr(0, token));
    source.resize(std::min<size_t>(source.size(), config.at("max_source_tokens")));
    return source;
  }

  // How long the token in front of ">>deu<< A text" is, 0 if there is none.
  static size_t token_length(const std::string& text) {
    if (text.rfind(">>", 0) != 0) return 0;
    const size_t end = text.find("<<", 3);
    return end < text.find(' ') ? end + 2 : 0;
  }

  Numbers numbers_of(const std::vector<std::string>& source) const {
    const int64_t unknown = config.at("unk_token_id");
    Numbers row = config.at("source_prefix");
    for (const auto& piece : source) row.push_back(numbers.value(piece, unknown));
    for (int64_t number : config.at("source_end")) row.push_back(number);
    return row;
  }

  // Greedy search for the words of a translation.
  Numbers search(const Numbers& source) {
    const Numbers mask(source.size(), 1);
    encoder.set("input_ids", source);
    encoder.set("attention_mask", mask);
    decoder.set("encoder_hidden_states", encoder.run().at("last_hidden_state"));
    decoder.set("encoder_attention_mask", mask);
    decoder.clear_caches();
    const int64_t end = config.at("eos_token_id");
    const size_t longest = config.at("max_target_tokens");
    Numbers found, next = config.at("decoder_start");
    while (found.size() < longest) {
      decoder.set("input_ids", next);
      auto outputs = decoder.run();
      const int64_t word = best(outputs.at("logits"), found.empty());
      if (word == end) break;
      for (const auto& [name, value] : outputs) {
        if (name.rfind("present", 0) != 0) continue;
        const bool source_cache = name.find(".encoder.") != std::string::npos;  // never changes
        if (!source_cache || found.empty()) decoder.set("past_key_values" + name.substr(7), value);
      }
      found.push_back(word);
      next = {word};
    }
    return found;
  }

  // The word behind the last one: never padding, and not the end as the first word.
  int64_t best(Ort::Value& logits, bool first) const {
    const auto shape = logits.GetTensorTypeAndShapeInfo().GetShape();  // 1 x words x vocabulary
    float* last = logits.GetTensorMutableData<float>() + (shape[1] - 1) * shape[2];
    last[config.at("pad_token_id").get<int64_t>()] = -INFINITY;
    if (first) last[config.at("eos_token_id").get<int64_t>()] = -INFINITY;
    return std::max_element(last, last + shape[2]) - last;
  }

  // Words as text: "▁" is a space, "<0x41>" a byte.
  std::string text_of(const Numbers& found) const {
    static const std::regex byte("<0x[0-9A-F]{2}>"), space("▁"), ends("^ +| +$");
    std::string text;
    for (int64_t number : found) {
      if (number == config.at("bos_token_id")) continue;
      const auto& word = words.at(number);
      if (!std::regex_match(word, byte)) {
        text += word;
      } else {
        const int value = std::stoi(word.substr(3, 2), nullptr, 16);
        text += value < ' ' ? ' ' : static_cast<char>(value);  // no end of a line
      }
    }
    return std::regex_replace(std::regex_replace(text, space, " "), ends, "");
  }

  Ort::Env env{ORT_LOGGING_LEVEL_ERROR};  // it warns of graphs that it cannot shrink
  Graph encoder, decoder;
  const json config, numbers;
  std::unordered_map<int64_t, std::string> words;
  sentencepiece::SentencePieceProcessor pieces;
};

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: translate FOLDER < TEXT\n";
    return 2;
  }
  try {
    Student student(arguments[1]);
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << student.translate(line) << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "translate: " << error.what() << '\n';
    return 1;
  }
}
