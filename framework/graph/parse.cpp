#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "framework/core/tensor_body.h"
#include "framework/dispatch/op.h"
#include "framework/graph/control_ops.h"
#include "framework/graph/fused_op.h"
#include "framework/ops/lengths.h"

namespace diptych::graph {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : size_(text.size()), rest_(text) {}

  /// The line that defines a value.
  int line_of(ValueId value) const { return value < lines_.size() ? lines_[value] : line_; }

  Graph run() {
    parse_graph();
    skip_space();
    if (!rest_.empty()) {
      fail("text behind the graph's end");
    }
    return std::move(graph_);
  }

 private:
  void parse_graph() {
    expect("graph");
    graph_.name = quoted();
    expect("(");
    if (!accept(")")) {
      do {
        parse_input();
      } while (accept(","));
      expect(")");
    }
    expect("{");
    while (!accept("return")) {
      parse_statement();
    }
    if (peek() == '%') {
      do {
        graph_.outputs.push_back(value());
      } while (accept(","));
    }
    expect("}");
  }

  /// A nested graph, whose values are numbered from 0 again.
  std::shared_ptr<const Graph> parse_region() {
    constexpr int kMostNested = 32;
    if (++depth_ > kMostNested) {
      fail("regions are nested too deeply");
    }
    Graph outer = std::exchange(graph_, Graph());
    std::vector<int> outer_lines = std::exchange(lines_, {});
    parse_graph();
    auto region = std::make_shared<const Graph>(std::exchange(graph_, std::move(outer)));
    lines_ = std::move(outer_lines);
    --depth_;
    return region;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("graph text, line {}: {}, near {}", line_, what, quote(rest_.substr(0, 24))));
  }

  /// And comments, from # to the end of the line.
  void skip_space() {
    while (!rest_.empty() &&
           (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t' || rest_[0] == '\r' || rest_[0] == '#')) {
      if (rest_[0] == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
        continue;
      }
      line_ += rest_[0] == '\n' ? 1 : 0;
      rest_.remove_prefix(1);
    }
  }
  char peek() {
    skip_space();
    return rest_.empty() ? '\0' : rest_[0];
  }
  bool accept(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) {
      return false;
    }
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) {
      fail(fmt::format("expected '{}'", token));
    }
  }
  /// Everything up to one of `ends` (not consumed), outside brackets.
  std::string_view until(std::string_view ends) {
    skip_space();
    std::size_t length = 0;
    int depth = 0;
    while (length < rest_.size() && (depth > 0 || ends.find(rest_[length]) == std::string_view::npos)) {
      depth += rest_[length] == '[' ? 1 : 0;
      depth -= rest_[length] == ']' ? 1 : 0;
      ++length;
    }
    const std::string_view token = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return token;
  }
  std::uint32_t number() {
    skip_space();
    std::uint32_t result = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), result);
    if (error != std::errc()) {
      fail("expected a number");
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return result;
  }
  /// A string literal with its quotes.
  std::string_view literal() {
    if (peek() != '"') {
      fail("expected '\"'");
    }
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != '"') {
      end += rest_[end] == '\\' ? 2 : 1;
    }
    if (end >= rest_.size()) {
      fail("a string has no end");
    }
    const std::string_view token = rest_.substr(0, end + 1);
    rest_.remove_prefix(end + 1);
    return token;
  }
  std::string quoted() {
    const std::string_view token = literal();
    std::string result;
    if (!unquote(token, result)) {
      fail("a \\x escape takes two hexadecimal digits");
    }
    return result;
  }

  ValueId value() {
    expect("%");
    const ValueId id = number();
    if (id >= size_) {  // ids are dense and each takes more than one character, so such a text is damaged
      fail("a value id is too large");
    }
    return id;
  }
  /// Of all regions together, too: see value().
  void count_values(std::size_t more) {
    values_ += more;
    if (values_ > size_) {
      fail("a value id is too large");
    }
  }
  ValueId used_value() {
    const ValueId id = value();
    if (id >= graph_.types.size()) {
      fail(fmt::format("%{} is used before its definition", id));
    }
    return id;
  }
  /// "%3: f32[2,3]"
  ValueId typed_value() {
    const ValueId id = value();
    expect(":");
    const std::string_view text = until(" \n),=");
    const std::size_t bracket = text.find('[');
    const auto dtype = parse_dtype(text.substr(0, bracket));
    TensorType type;
    if (!dtype || bracket == std::string_view::npos || !detail::parse_field(text.substr(bracket), type.shape)) {
      fail(fmt::format("'{}' is not a type", text));
    }
    if (!ops::is_plausible(type.shape)) {
      fail(fmt::format("'{}' has an impossible length", text));
    }
    type.dtype = *dtype;
    if (id >= graph_.types.size()) {
      count_values(id + std::size_t{1} - graph_.types.size());
      graph_.types.resize(id + std::size_t{1});
    }
    graph_.types[id] = type;
    lines_.resize(graph_.types.size(), 0);
    lines_[id] = line_;
    return id;
  }

  void parse_input() {
    Input input{typed_value(), InputKind::argument, "", {}, {}};
    const std::string_view kind = until(" \"");
    bool known = false;
    for (const InputKind candidate : {InputKind::argument, InputKind::state, InputKind::captured}) {
      if (kind == name_of(candidate)) {
        input.kind = candidate;
        known = true;
      }
    }
    if (!known) {
      fail(fmt::format("'{}' is no kind of input (argument, state, captured)", kind));
    }
    input.name = quoted();
    graph_.inputs.push_back(std::move(input));
  }

  void parse_statement() {
    if (accept("update")) {
      const ValueId state = value();
      expect("<-");
      const auto found = std::find_if(graph_.inputs.begin(), graph_.inputs.end(),
                                      [&](const Input& input) { return input.value == state; });
      if (found == graph_.inputs.end()) {
        fail(fmt::format("%{} is no input", state));
      }
      graph_.updates.push_back({static_cast<std::uint32_t>(found - graph_.inputs.begin()), used_value()});
    } else if (accept("const")) {
      const ValueId id = typed_value();
      expect("=");
      graph_.constants.emplace_back(id, elements(graph_.types[id]));
    } else if (peek() == '%') {
      parse_node();
    } else {
      fail("expected a node, const, update or return");
    }
  }

  void parse_node() {
    std::vector<ValueId> outputs;
    do {
      outputs.push_back(typed_value());
    } while (accept(","));
    expect("=");
    const std::string_view name = until("( \n");
    const OpDef* op = find_op(name);
    if (op == nullptr) {
      op = find_control_op(name);
    }
    if (op == nullptr && name == fused_op().name) {
      op = &fused_op();
    }
    if (op == nullptr) {
      fail(fmt::format("there is no op '{}'", name));
    }
    Node node{op, AttributeValue(op->attributes, nullptr), {}, std::move(outputs), {}};
    expect("(");
    if (!accept(")")) {
      do {
        node.inputs.push_back(used_value());
      } while (accept(","));
      expect(")");
    }
    if (accept("{")) {
      do {
        const std::string_view field = until("=");
        expect("=");
        const std::string_view text = peek() == '"' ? literal() : until(",}");
        if (op->attributes == nullptr || !op->attributes->parse_field(node.attributes.get(), field, text)) {
          fail(fmt::format("{} has no attribute {}={}", name, field, text));
        }
      } while (accept(","));
      expect("}");
    }
    if (accept("[")) {
      do {
        node.regions.push_back(parse_region());
      } while (accept(","));
      expect("]");
    }
    if (accept("@")) {
      expect("[");
      if (!accept("]")) {
        do {
          node.provenance.source_ops.push_back(number());
        } while (accept(","));
        expect("]");
      }
      node.provenance.scope = intern(quoted());
      node.provenance.where.file = intern(quoted());
      node.provenance.where.line = number();
    }
    graph_.nodes.push_back(std::move(node));
  }

  template <class T>
  T element() {
    skip_space();
    const std::string_view text = until(" ,}\n");
    const char* const end = text.data() + text.size();
    const auto is_whole = [end](const std::from_chars_result& read) {
      return read.ec == std::errc() && read.ptr == end;
    };
    T result{};
    bool good = false;
    if constexpr (std::is_same_v<T, bool>) {
      good = detail::parse_field(text, result);
    } else if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      if (text.starts_with("bits:0x")) {
        Bits bits = 0;
        good = is_whole(std::from_chars(text.data() + 7, end, bits, 16));
        result = std::bit_cast<T>(bits);
      } else {
        good = is_whole(std::from_chars(text.data(), end, result));
      }
    } else {
      good = is_whole(std::from_chars(text.data(), end, result));
    }
    if (!good) {
      fail(fmt::format("'{}' is no element of the constant's type", text));
    }
    return result;
  }

  template <class T>
  T one_element() {
    if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
      return T(element<float>());
    } else {
      return element<T>();
    }
  }

  Tensor elements(const TensorType& type) {
    return visit(type.dtype, [&]<class T>() {
      const auto count = static_cast<std::size_t>(type.shape.product());
      if (accept("splat")) {
        // Each is far above what constant folding makes, all are as many as 256 of its largest.
        constexpr std::size_t kMostElements = std::size_t{1} << 22U;
        constexpr std::size_t kMostOfAll = std::size_t{1} << 26U;
        repeated_ += std::min(count, kMostElements);
        if (count > kMostElements || repeated_ > kMostOfAll) {
          fail(fmt::format("a constant is too large, {} elements{}", count,
                           count > kMostElements ? "" : ", beside the others"));
        }
        const T value = one_element<T>();
        Tensor tensor = Tensor::empty(type.dtype, type.shape);
        std::fill_n(tensor.mutable_data<T>(), count, value);
        return tensor;
      }
      std::vector<T> values;
      expect("{");
      if (!accept("}")) {
        do {
          values.push_back(one_element<T>());
        } while (accept(","));
        expect("}");
      }
      if (values.size() != count) {
        fail(fmt::format("{} elements for {}", values.size(), to_string(type)));
      }
      return Tensor::from(values, type.shape);
    });
  }

  std::size_t size_;
  std::size_t values_ = 0, repeated_ = 0;  ///< of all regions: values, and elements of constants of one element's text
  std::string_view rest_;
  int line_ = 1;
  int depth_ = 0;
  std::vector<int> lines_;  ///< by value
  Graph graph_;
};

}  // namespace

Graph parse(std::string_view text) {
  Parser parser(text);
  Graph graph = parser.run();
  if (const auto problem = find_malformation(graph)) {
    throw Error(fmt::format("graph text, line {}: {}", parser.line_of(problem->value), problem->what));
  }
  return graph;
}

}  // namespace diptych::graph
