#include "muster/k8s_client/json_reader.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <deque>

#include "simdjson_text.h"

namespace muster::k8s {
namespace {

enum class Type : uint8_t { kObject, kArray, kString, kNumber, kBool, kNull };

struct Node {
  Type type = Type::kNull;
  bool boolean = false;
  int32_t count = 0;  // children
  int64_t parent = -1;
  int64_t first = -1;  // child
  int64_t next = -1;   // sibling
  int32_t position = 0;
  std::string_view key;   // inside an object
  std::string_view text;  // of a string (unescaped) or number
  std::string_view raw;
};

// A place that holds nothing, kept so that it can be named.
struct Absence {
  int64_t parent = -1;
  int32_t position = -1;  // negative: `key` counts
  std::string key;
};

bool IsNumber(std::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t start = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    return i - start;
  };
  const auto take = [&](char c) { return i < text.size() && text[i] == c ? (++i, true) : false; };
  take('-');
  const size_t first = i;
  const size_t whole = digits();
  if (whole == 0 || (whole > 1 && text[first] == '0')) return false;
  if (take('.') && digits() == 0) return false;
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (digits() == 0) return false;
  }
  return i == text.size();
}

std::string Shortened(std::string_view raw) {
  constexpr size_t kMax = 60;
  return raw.size() <= kMax ? std::string(raw) : absl::StrCat(std::string(raw.substr(0, kMax)), "...");
}

}  // namespace

class JsonDocument::Impl {
 public:
  explicit Impl(std::string_view text) : text_(Padded(text)) {
    nodes_.reserve(text.size() / 24 + 8);
    Parse();
  }

  bool ok() const { return !rejected_; }

  // Adds the value and all below it.
  bool Walk(ondemand::document& document, ondemand::value value, int64_t parent, std::string_view key, int32_t position,
            int depth) {
    if (depth > kMaxDepth) return RejectFalse("nested too deep");
    ondemand::json_type type;
    if (const auto error = value.type().get(type)) return RejectFalse(ErrorText(error));
    const int64_t index = static_cast<int64_t>(nodes_.size());
    Node& added = nodes_.emplace_back();
    added.parent = parent;
    added.position = position;
    added.key = key;
    const std::string_view token = Trim(value.raw_json_token());
    bool good = false;
    switch (type) {
      case ondemand::json_type::object:
        good = WalkObject(document, value, index, depth);
        break;
      case ondemand::json_type::array:
        good = WalkArray(document, value, index, depth);
        break;
      default:
        nodes_[Slot(index)].raw = token;
        good = WalkScalar(value, type, token, index);
    }
    if (good && (type == ondemand::json_type::object || type == ondemand::json_type::array)) {
      nodes_[Slot(index)].raw = TextTo(token.data(), document, text_);
    }
    return good;
  }

  static size_t Slot(int64_t index) { return static_cast<size_t>(index); }
  const Node& node(int64_t index) const { return nodes_[Slot(index)]; }

  int64_t Child(int64_t index, std::string_view key) const {
    for (int64_t i = node(index).first; i >= 0; i = node(i).next) {
      if (node(i).key == key) return i;
    }
    return -1;
  }

  // RETURNS: the (negative) number of a new absent place.
  int64_t Absent(int64_t parent, std::string_view key, int32_t position) {
    absences_.push_back({parent, position, std::string(key)});
    return -static_cast<int64_t>(absences_.size());
  }
  // A child node as a value: null is absent.
  int64_t Place(int64_t index) {
    const Node& n = node(index);
    return n.type == Type::kNull ? Absent(n.parent, n.key, IsIn(n.parent, Type::kArray) ? n.position : -1) : index;
  }

  std::string Path(int64_t index) const {
    if (index >= 0) {
      const Node& n = node(index);
      if (n.parent < 0) return "";
      return IsIn(n.parent, Type::kArray) ? Element(n.parent, n.position) : Member(n.parent, n.key);
    }
    const Absence& a = absences_[Slot(-index - 1)];
    if (a.parent == kNowhere) return "";
    return a.position >= 0 ? Element(a.parent, a.position) : Member(a.parent, a.key);
  }

  void Fail(int64_t index, std::string_view message) {
    if (!error_.empty()) return;
    const std::string path = Path(index);
    error_ = path.empty() ? std::string(message) : absl::StrCat(path, ": ", std::string(message));
  }

  const std::string& error() const { return error_; }

  static constexpr int64_t kNowhere = INT64_MIN;  // the parent of an absent root

 private:
  void Parse() {
    ParserLease parser(text_.size());
    ondemand::document document;
    if (const auto error = parser.get().iterate(View(text_)).get(document)) return Reject(ErrorText(error));
    ondemand::value value;
    if (const auto error = document.get_value().get(value)) return Reject(ErrorText(error));
    if (!Walk(document, value, -1, {}, 0, 1)) return;
    if (!AtEnd(document)) Reject("text follows the value");
  }
  bool RejectFalse(std::string_view why) {
    Reject(why);
    return false;
  }
  void Reject(std::string_view why) {
    rejected_ = true;
    nodes_.clear();
    error_ = absl::StrCat("not valid JSON: ", std::string(why));
  }

  void Link(int64_t parent, int64_t* last, int64_t child) {
    (*last < 0 ? nodes_[Slot(parent)].first : nodes_[Slot(*last)].next) = child;
    *last = child;
    ++nodes_[Slot(parent)].count;
  }

  bool WalkObject(ondemand::document& document, ondemand::value value, int64_t index, int depth) {
    nodes_[Slot(index)].type = Type::kObject;
    ondemand::object object;
    if (const auto error = value.get_object().get(object)) return RejectFalse(ErrorText(error));
    int64_t last = -1;
    for (auto result : object) {
      ondemand::field field;
      if (const auto error = std::move(result).get(field)) return RejectFalse(ErrorText(error));
      std::string_view key;
      if (!Key(field, &key)) return false;
      const auto child = static_cast<int64_t>(nodes_.size());
      const int32_t position = nodes_[Slot(index)].count;
      if (!Walk(document, field.value(), index, key, position, depth + 1)) return false;
      Link(index, &last, child);
    }
    return true;
  }

  bool WalkArray(ondemand::document& document, ondemand::value value, int64_t index, int depth) {
    nodes_[Slot(index)].type = Type::kArray;
    ondemand::array array;
    if (const auto error = value.get_array().get(array)) return RejectFalse(ErrorText(error));
    int64_t last = -1;
    for (auto result : array) {
      ondemand::value element;
      if (const auto error = std::move(result).get(element)) return RejectFalse(ErrorText(error));
      const auto child = static_cast<int64_t>(nodes_.size());
      const int32_t position = nodes_[Slot(index)].count;
      if (!Walk(document, element, index, {}, position, depth + 1)) return false;
      Link(index, &last, child);
    }
    return true;
  }

  bool WalkScalar(ondemand::value value, ondemand::json_type type, std::string_view token, int64_t index) {
    Node& n = nodes_[Slot(index)];
    switch (type) {
      case ondemand::json_type::string:
        n.type = Type::kString;
        if (token.size() < 2 || token.back() != '"') return RejectFalse("a string does not end");
        n.text = token.substr(1, token.size() - 2);
        // Either way the value is consumed: simdjson skips an unread string as if it might be a name.
        if (n.text.find('\\') != std::string_view::npos) {
          std::string_view unescaped;
          if (const auto error = value.get_string().get(unescaped)) return RejectFalse(ErrorText(error));
          n.text = unescaped_.emplace_back(unescaped);
        } else if (const auto error = value.get_raw_json_string().error()) {
          return RejectFalse(ErrorText(error));
        }
        return true;
      case ondemand::json_type::number:
        n.type = Type::kNumber;
        n.text = token;
        return IsNumber(token) || RejectFalse(absl::StrCat("not a number: ", Shortened(token)));
      case ondemand::json_type::boolean:
        n.type = Type::kBool;
        n.boolean = token == "true";
        return n.boolean || token == "false" || RejectFalse(absl::StrCat("unknown word: ", Shortened(token)));
      case ondemand::json_type::null:
        return token == "null" || RejectFalse(absl::StrCat("unknown word: ", Shortened(token)));
      case ondemand::json_type::object:
      case ondemand::json_type::array:
        break;
    }
    return RejectFalse("unknown kind of value");
  }

  bool Key(ondemand::field& field, std::string_view* out) {
    const char* begin = field.key().raw();
    const size_t limit = static_cast<size_t>(text_.data() + text_.size() - begin);
    const std::string_view rest(begin, limit);
    const size_t end = rest.find('"');
    if (end == std::string_view::npos) return RejectFalse("a name does not end");
    *out = rest.substr(0, end);
    if (out->find('\\') == std::string_view::npos) return true;
    std::string_view unescaped;
    if (const auto error = field.unescaped_key().get(unescaped)) return RejectFalse(ErrorText(error));
    *out = unescaped_.emplace_back(unescaped);
    return true;
  }

  bool IsIn(int64_t parent, Type type) const { return parent >= 0 && node(parent).type == type; }
  std::string Element(int64_t parent, int32_t position) const { return absl::StrCat(Path(parent), "[", position, "]"); }
  std::string Member(int64_t parent, std::string_view key) const {
    const bool plain = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    });
    std::string path = Path(parent);
    if (!plain) return absl::StrCat(path, "[\"", std::string(key), "\"]");
    return path.empty() ? std::string(key) : absl::StrCat(path, ".", std::string(key));
  }

  std::string text_;
  std::vector<Node> nodes_;
  std::deque<std::string> unescaped_;
  std::deque<Absence> absences_;
  bool rejected_ = false;
  std::string error_;
};

JsonDocument::JsonDocument(std::string_view text) : impl_(std::make_unique<Impl>(text)) {}
JsonDocument::~JsonDocument() = default;

JsonValue JsonDocument::root() {
  return JsonValue(this, impl_->ok() ? impl_->Place(0) : impl_->Absent(Impl::kNowhere, {}, -1));
}

const std::string& JsonDocument::problem() const { return impl_->error(); }

absl::Status JsonDocument::Finish(std::string_view object) const {
  if (impl_->error().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(std::string(object), ": ", impl_->error()));
}

namespace {

std::string Wrong(std::string_view wanted, std::string_view raw) {
  return absl::StrCat("must be ", std::string(wanted), ", got ", Shortened(raw));
}

}  // namespace

JsonValue JsonValue::operator[](std::string_view key) const {
  JsonDocument::Impl& d = *document_->impl_;
  if (present()) {
    if (d.node(index_).type != Type::kObject) {
      Fail(Wrong("an object", d.node(index_).raw));
    } else if (const int64_t child = d.Child(index_, key); child >= 0) {
      return JsonValue(document_, d.Place(child));
    }
  }
  return JsonValue(document_, d.Absent(index_, key, -1));
}

std::string JsonValue::String(std::string_view absent) const {
  if (!present()) return std::string(absent);
  const Node& n = document_->impl_->node(index_);
  if (n.type == Type::kString) return std::string(n.text);
  Fail(Wrong("a string", n.raw));
  return std::string(absent);
}

std::optional<int64_t> JsonValue::OptionalInt() const {
  if (!present()) return std::nullopt;
  const Node& n = document_->impl_->node(index_);
  int64_t value = 0;
  if (n.type == Type::kNumber && absl::SimpleAtoi(absl::string_view(n.text.data(), n.text.size()), &value)) {
    return value;
  }
  Fail(Wrong("an integer of 64 bits", n.raw));
  return std::nullopt;
}

int64_t JsonValue::Int(int64_t absent) const { return OptionalInt().value_or(absent); }

std::optional<int32_t> JsonValue::OptionalInt32() const {
  if (!present()) return std::nullopt;
  const Node& n = document_->impl_->node(index_);
  int32_t value = 0;
  if (n.type == Type::kNumber && absl::SimpleAtoi(absl::string_view(n.text.data(), n.text.size()), &value)) {
    return value;
  }
  Fail(Wrong("an integer of 32 bits", n.raw));
  return std::nullopt;
}

int32_t JsonValue::Int32(int32_t absent) const { return OptionalInt32().value_or(absent); }

std::optional<int32_t> JsonValue::OptionalCount() const {
  const std::optional<int32_t> value = OptionalInt32();
  if (!value.has_value() || *value >= 0) return value;
  Fail(Wrong("a number from 0 up", document_->impl_->node(index_).raw));
  return std::nullopt;
}

int32_t JsonValue::Count(int32_t absent) const { return OptionalCount().value_or(absent); }

std::optional<bool> JsonValue::OptionalBool() const {
  if (!present()) return std::nullopt;
  const Node& n = document_->impl_->node(index_);
  if (n.type == Type::kBool) return n.boolean;
  Fail(Wrong("true or false", n.raw));
  return std::nullopt;
}

bool JsonValue::Bool(bool absent) const { return OptionalBool().value_or(absent); }

std::string JsonValue::Scalar(std::string_view absent) const {
  if (!present()) return std::string(absent);
  const Node& n = document_->impl_->node(index_);
  if (n.type == Type::kString || n.type == Type::kNumber) return std::string(n.text);
  Fail(Wrong("a string or number", n.raw));
  return std::string(absent);
}

WallTime JsonValue::Time() const {
  const std::string text = String();
  if (text.empty() || text == "0001-01-01T00:00:00Z") return {};
  const auto time = ParseTime(text);
  if (time.ok()) return *time;
  Fail(std::string(time.status().message()));
  return {};
}

Labels JsonValue::Map() const {
  Labels out;
  ForEachField([&](std::string_view key, JsonValue value) { out[std::string(key)] = value.String(); });
  return out;
}

void JsonValue::ForEach(const std::function<void(JsonValue)>& visit) const {
  if (!present()) return;
  JsonDocument::Impl& d = *document_->impl_;
  if (d.node(index_).type != Type::kArray) return Fail(Wrong("a list", d.node(index_).raw));
  for (int64_t i = d.node(index_).first; i >= 0; i = d.node(i).next) visit(JsonValue(document_, d.Place(i)));
}

void JsonValue::ForEachField(const std::function<void(std::string_view, JsonValue)>& visit) const {
  if (!present()) return;
  JsonDocument::Impl& d = *document_->impl_;
  if (d.node(index_).type != Type::kObject) return Fail(Wrong("an object", d.node(index_).raw));
  for (int64_t i = d.node(index_).first; i >= 0; i = d.node(i).next) {
    visit(d.node(i).key, JsonValue(document_, d.Place(i)));
  }
}

int64_t JsonValue::size() const { return present() ? document_->impl_->node(index_).count : 0; }
bool JsonValue::IsObject() const { return present() && document_->impl_->node(index_).type == Type::kObject; }
bool JsonValue::IsArray() const { return present() && document_->impl_->node(index_).type == Type::kArray; }
bool JsonValue::IsString() const { return present() && document_->impl_->node(index_).type == Type::kString; }
std::string JsonValue::Raw() const {
  return present() ? std::string(document_->impl_->node(index_).raw) : std::string("null");
}
std::string JsonValue::Path() const { return document_->impl_->Path(index_); }
void JsonValue::Fail(std::string_view message) const { document_->impl_->Fail(index_, message); }

ObjectMeta DecodeMeta(JsonValue object) {
  const JsonValue meta = object["metadata"];
  ObjectMeta out;
  out.ns = meta["namespace"].String();
  out.name = meta["name"].String();
  out.uid = meta["uid"].String();
  out.resource_version = meta["resourceVersion"].String();
  out.generation = meta["generation"].Int();
  out.creation = meta["creationTimestamp"].Time();
  out.deletion = meta["deletionTimestamp"].Time();
  out.labels = meta["labels"].Map();
  out.annotations = meta["annotations"].Map();
  meta["ownerReferences"].ForEach([&](JsonValue owner) {
    out.owners.push_back({.api_version = owner["apiVersion"].String(),
                          .kind = owner["kind"].String(),
                          .name = owner["name"].String(),
                          .uid = owner["uid"].String(),
                          .controller = owner["controller"].Bool()});
  });
  meta["finalizers"].ForEach([&](JsonValue finalizer) { out.finalizers.push_back(finalizer.String()); });
  return out;
}

ObjectMeta ReadMeta(std::string_view json) {
  JsonDocument document(json);
  return DecodeMeta(document.root());
}

std::vector<Condition> DecodeConditions(JsonValue conditions) {
  std::vector<Condition> out;
  conditions.ForEach([&](JsonValue condition) {
    out.push_back({.type = condition["type"].String(),
                   .status = condition["status"].String(),
                   .reason = condition["reason"].String(),
                   .message = condition["message"].String(),
                   .last_transition = condition["lastTransitionTime"].Time(),
                   .observed_generation = condition["observedGeneration"].Int()});
  });
  return out;
}

}  // namespace muster::k8s
