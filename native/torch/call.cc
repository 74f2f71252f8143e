// Calls any operator of the dispatcher with arguments from the tape.
//
// The tape is a Float64Array that JS and C++ share: a call costs one crossing, whatever the number of arguments.
// An argument is a tag and its payload; results come back the same way from the start of the tape.
#include <ATen/core/ivalue.h>

#include <cstring>
#include <sstream>

#include "environment.h"

namespace serac {
namespace {

// Keep equal to src/torch/tape.ts.
enum Tag : int { kNone = 0, kInt = 1, kFloat = 2, kBool = 3, kTensor = 4, kList = 5, kString = 6, kGenerator = 7, kBigInt = 8, kDefault = 9 };

Kind kindOf(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::TensorType: return Kind::Tensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return Kind::Int;
    case c10::TypeKind::FloatType: return Kind::Float;
    case c10::TypeKind::BoolType: return Kind::Bool;
    case c10::TypeKind::NumberType: return Kind::Scalar;
    case c10::TypeKind::StringType: return Kind::String;
    case c10::TypeKind::DeviceObjType: return Kind::Device;
    case c10::TypeKind::GeneratorType: return Kind::Generator;
    case c10::TypeKind::ScalarTypeType: return Kind::ScalarType;
    case c10::TypeKind::LayoutType: return Kind::Layout;
    case c10::TypeKind::MemoryFormatType: return Kind::MemoryFormat;
    default: return Kind::Unsupported;
  }
}

ArgumentType describe(const c10::Argument& argument) {
  ArgumentType a;
  c10::TypePtr type = argument.real_type();
  a.text = type->str();
  if (auto optional = type->cast<c10::OptionalType>()) {
    a.optional = true;
    type = optional->getElementType();
  }
  if (auto list = type->cast<c10::ListType>()) {
    a.list = true;
    a.fixed = argument.N().value_or(0);
    type = list->getElementType();
    if (auto optional = type->cast<c10::OptionalType>()) {
      a.optionalElements = true;
      type = optional->getElementType();
    }
  }
  a.kind = kindOf(type);
  return a;
}

class TapeReader {
 public:
  TapeReader(napi_env env, Environment& e, const Operator& op, napi_value strings) : env_(env), e_(e), op_(op), strings_(strings), p_(e.tape), end_(e.tape + e.tapeSize) {}

  c10::IValue argument(size_t index) {
    index_ = index;
    const ArgumentType& type = op_.arguments[index];
    const int tag = next();
    if (tag == kDefault) {
      const c10::Argument& argument = op_.handle.schema().arguments()[index];
      if (argument.default_value()) return *argument.default_value();
      if (type.optional) return {};
      refuse("it is missing");
    }
    if (tag == kNone) {
      if (!type.optional) refuse("got none");
      return {};
    }
    return type.list ? list(type, tag) : scalar(type, tag);
  }

 private:
  double number() {
    if (p_ >= end_) throw std::runtime_error("internal: the tape ended early");
    return *p_++;
  }
  int next() { return static_cast<int>(number()); }

  [[noreturn]] void refuse(const std::string& got) const {
    const c10::Argument& argument = op_.handle.schema().arguments()[index_];
    throw CodedError("TORCH_BAD_ARGUMENT", op_.name + ": argument '" + argument.name() + "' must be " + op_.arguments[index_].text + ", but " + got);
  }
  [[noreturn]] void refuseTag(int tag) const {
    static const char* names[] = {"none", "an integer", "a number with a fraction", "a boolean", "a tensor", "an array", "a string", "a generator", "a bigint", "nothing"};
    refuse(std::string("got ") + (tag >= 0 && tag <= kDefault ? names[tag] : "something unknown"));
  }

  at::Tensor tensor() {
    at::Tensor* t = e_.tensors.find(number());
    if (!t) throw CodedError("TENSOR_FREED", op_.name + ": argument '" + op_.handle.schema().arguments()[index_].name() + "' is a tensor that was freed");
    return *t;
  }

  int64_t integer(int tag) {
    if (tag == kInt) return static_cast<int64_t>(number());
    if (tag == kBigInt) {
      int64_t x;
      const double d = number();
      std::memcpy(&x, &d, sizeof x);
      return x;
    }
    refuseTag(tag);
  }
  double floating(int tag) {
    if (tag == kInt || tag == kFloat) return number();
    refuseTag(tag);
  }
  std::string string() {
    napi_value v;
    check(env_, napi_get_element(env_, strings_, static_cast<uint32_t>(number()), &v));
    return toString(env_, v);
  }

  c10::IValue scalar(const ArgumentType& type, int tag) {
    switch (type.kind) {
      case Kind::Tensor:
        if (tag != kTensor) refuseTag(tag);
        return tensor();
      case Kind::Int: return integer(tag);
      case Kind::Float: return floating(tag);
      case Kind::Bool:
        if (tag != kBool) refuseTag(tag);
        return number() != 0;
      case Kind::Scalar:
        if (tag == kBool) return number() != 0;
        if (tag == kFloat) return number();
        return integer(tag);
      case Kind::String:
        if (tag != kString) refuseTag(tag);
        return string();
      case Kind::Device: {
        if (tag != kString) refuseTag(tag);
        const std::string name = string();
        try {
          return c10::Device(name);
        } catch (const c10::Error&) {
          refuse("got '" + name + "'");
        }
      }
      case Kind::Generator: {
        if (tag != kGenerator) refuseTag(tag);
        at::Generator* g = e_.generators.find(number());
        if (!g) refuse("got a generator that was freed");
        return *g;
      }
      case Kind::ScalarType:
      case Kind::Layout:
      case Kind::MemoryFormat: return integer(tag);
      case Kind::Unsupported: break;
    }
    throw CodedError("TORCH_BAD_ARGUMENT", op_.name + ": arguments of type " + type.text + " cannot be passed from JavaScript");
  }

  template <typename T, typename F>
  c10::List<T> read(int count, F&& element) {
    c10::List<T> items;
    items.reserve(count);
    for (int i = 0; i < count; ++i) items.push_back(element());
    return items;
  }

  c10::IValue list(const ArgumentType& type, int tag) {
    if (tag != kList) {
      if (type.fixed > 0 && type.kind == Kind::Int) return c10::List<int64_t>(std::vector<int64_t>(type.fixed, integer(tag)));
      if (type.fixed > 0 && type.kind == Kind::Float) return c10::List<double>(std::vector<double>(type.fixed, floating(tag)));
      refuseTag(tag);
    }
    const int count = next();
    switch (type.kind) {
      case Kind::Tensor:
        if (type.optionalElements) {
          return read<c10::optional<at::Tensor>>(count, [&]() -> c10::optional<at::Tensor> {
            const int t = next();
            if (t == kNone) return c10::nullopt;
            if (t != kTensor) refuseTag(t);
            return tensor();
          });
        }
        return read<at::Tensor>(count, [&] {
          const int t = next();
          if (t != kTensor) refuseTag(t);
          return tensor();
        });
      case Kind::Int: return read<int64_t>(count, [&] { return integer(next()); });
      case Kind::Float: return read<double>(count, [&] { return floating(next()); });
      case Kind::Bool:
        return read<bool>(count, [&] {
          const int t = next();
          if (t != kBool) refuseTag(t);
          return number() != 0;
        });
      default: throw CodedError("TORCH_BAD_ARGUMENT", op_.name + ": lists of type " + type.text + " cannot be passed from JavaScript");
    }
  }

  napi_env env_;
  Environment& e_;
  const Operator& op_;
  napi_value strings_;
  const double* p_;
  const double* end_;
  size_t index_ = 0;
};

class TapeWriter {
 public:
  TapeWriter(Environment& e, const Operator& op) : e_(e), op_(op), p_(e.tape), end_(e.tape + e.tapeSize) {}

  void value(const c10::IValue& v) {
    if (v.isTensor()) {
      const at::Tensor& t = v.toTensor();
      if (t.defined()) {
        put(kTensor);
        put(e_.tensors.add(t));
      } else {
        put(kNone);
      }
    } else if (v.isInt()) {
      number(v.toInt());
    } else if (v.isDouble()) {
      put(kFloat);
      put(v.toDouble());
    } else if (v.isBool()) {
      put(kBool);
      put(v.toBool());
    } else if (v.isNone()) {
      put(kNone);
    } else if (v.isTensorList()) {
      const auto items = v.toTensorVector();
      put(kList);
      put(static_cast<double>(items.size()));
      for (const auto& t : items) value(t);
    } else if (v.isIntList()) {
      const auto items = v.toIntVector();
      put(kList);
      put(static_cast<double>(items.size()));
      for (const int64_t x : items) number(x);
    } else if (v.isDoubleList()) {
      const auto items = v.toDoubleVector();
      put(kList);
      put(static_cast<double>(items.size()));
      for (const double x : items) {
        put(kFloat);
        put(x);
      }
    } else {
      throw CodedError("TORCH_FAILED", op_.name + ": a result of type " + v.tagKind() + " cannot be returned to JavaScript");
    }
  }

  void put(double x) {
    if (p_ >= end_) throw std::runtime_error(op_.name + ": more results than the tape holds");
    *p_++ = x;
  }

 private:
  void number(int64_t x) {
    if (x >= -(int64_t{1} << 53) && x <= (int64_t{1} << 53)) {
      put(kInt);
      put(static_cast<double>(x));
      return;
    }
    double bits;
    std::memcpy(&bits, &x, sizeof bits);
    put(kBigInt);
    put(bits);
  }

  Environment& e_;
  const Operator& op_;
  double* p_;
  double* end_;
};

void describeShapes(std::ostream& out, const c10::IValue& v) {
  if (v.isTensor()) {
    const at::Tensor& t = v.toTensor();
    if (!t.defined()) return;
    out << ' ' << c10::toString(t.scalar_type()) << '(';
    for (int64_t d = 0; d < t.dim(); ++d) out << (d ? ", " : "") << t.size(d);
    out << ')';
  } else if (v.isTensorList()) {
    out << " [";
    for (const at::Tensor& t : v.toTensorVector()) describeShapes(out, t);
    out << " ]";
  }
}

// call(id, strings): arguments from the tape, results to it; returns the number of results.
napi_value call(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<2> args(env, info);
    Environment& e = environmentOf(env);
    uint32_t id = 0;
    check(env, napi_get_value_uint32(env, args[0], &id));
    if (id >= e.operators.size()) throw std::runtime_error("internal: no operator of this id");
    const Operator& op = e.operators[id];

    torch::jit::Stack stack;
    stack.reserve(op.arguments.size());
    TapeReader reader(env, e, op, args[1]);
    for (size_t i = 0; i < op.arguments.size(); ++i) stack.push_back(reader.argument(i));

    try {
      op.handle.callBoxed(&stack);
    } catch (const c10::Error& error) {
      std::ostringstream text;
      text << op.name << ": " << error.what_without_backtrace() << "; got";
      TapeReader again(env, e, op, args[1]);
      for (size_t i = 0; i < op.arguments.size(); ++i) describeShapes(text, again.argument(i));
      throw CodedError("TORCH_FAILED", text.str());
    }

    if (op.returnsSelf) return fromDouble(env, 0);
    TapeWriter writer(e, op);
    for (const auto& v : stack) writer.value(v);
    return fromDouble(env, static_cast<double>(stack.size()));
  });
}

napi_value resolve(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<2> args(env, info);
    Environment& e = environmentOf(env);
    const std::string name = toString(env, args[0]);
    const std::string overload = toString(env, args[1]);
    const std::string key = overload.empty() ? name : name + "." + overload;
    auto known = e.operatorIds.find(key);
    if (known == e.operatorIds.end()) {
      const auto handle = c10::Dispatcher::singleton().findSchema({name, overload});
      if (!handle) throw CodedError("TORCH_UNKNOWN_OPERATOR", "this libtorch has no operator " + key);
      Operator op{*handle, key, {}, false};
      const auto written = [](const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); };
      const auto &inputs = handle->schema().arguments(), &outputs = handle->schema().returns();
      for (const auto& argument : inputs) op.arguments.push_back(describe(argument));
      op.returnsSelf = outputs.size() == 1 && !inputs.empty() && !op.arguments[0].list && written(inputs[0]) && written(outputs[0]);
      e.operators.push_back(std::move(op));
      known = e.operatorIds.emplace(key, static_cast<uint32_t>(e.operators.size() - 1)).first;
    }
    const Operator& op = e.operators[known->second];
    const c10::FunctionSchema& schema = op.handle.schema();

    napi_value result, list;
    check(env, napi_create_object(env, &result));
    set(env, result, "id", fromDouble(env, known->second));
    set(env, result, "name", fromString(env, key));
    set(env, result, "returnsSelf", fromBool(env, op.returnsSelf));
    set(env, result, "schema", fromString(env, c10::toString(schema)));
    check(env, napi_create_array(env, &list));
    for (size_t i = 0; i < op.arguments.size(); ++i) {
      const c10::Argument& argument = schema.arguments()[i];
      napi_value a;
      check(env, napi_create_object(env, &a));
      set(env, a, "name", fromString(env, argument.name()));
      set(env, a, "type", fromString(env, op.arguments[i].text));
      set(env, a, "fixed", fromDouble(env, op.arguments[i].fixed));
      set(env, a, "named", fromBool(env, argument.kwarg_only()));
      set(env, a, "hasDefault", fromBool(env, argument.default_value().has_value()));
      set(env, a, "written", fromBool(env, argument.alias_info() && argument.alias_info()->isWrite()));
      check(env, napi_set_element(env, list, static_cast<uint32_t>(i), a));
    }
    set(env, result, "arguments", list);
    check(env, napi_create_array(env, &list));
    for (size_t i = 0; i < schema.returns().size(); ++i) {
      napi_value r;
      check(env, napi_create_object(env, &r));
      set(env, r, "name", fromString(env, schema.returns()[i].name()));
      set(env, r, "type", fromString(env, schema.returns()[i].real_type()->str()));
      check(env, napi_set_element(env, list, static_cast<uint32_t>(i), r));
    }
    set(env, result, "returns", list);
    return result;
  });
}

napi_value listOperators(napi_env env, napi_callback_info) {
  return guard(env, [&]() -> napi_value {
    napi_value list;
    check(env, napi_create_array(env, &list));
    uint32_t i = 0;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (!c10::Dispatcher::singleton().findSchema(name)) continue;
      check(env, napi_set_element(env, list, i++, fromString(env, name.overload_name.empty() ? name.name : name.name + "." + name.overload_name)));
    }
    return list;
  });
}

napi_value setTape(napi_env env, napi_callback_info info) {
  return guard(env, [&]() -> napi_value {
    Args<1> args(env, info);
    Environment& e = environmentOf(env);
    const Bytes bytes = toBytes(env, args[0]);
    napi_ref reference;
    check(env, napi_create_reference(env, args[0], 1, &reference));
    if (e.tapeReference) napi_delete_reference(env, e.tapeReference);
    e.tapeReference = reference;
    e.tape = reinterpret_cast<double*>(bytes.data);
    e.tapeSize = bytes.size / sizeof(double);
    return undefined(env);
  });
}

}  // namespace

void exportCall(napi_env env, napi_value exports) {
  exportFunction(env, exports, "call", call);
  exportFunction(env, exports, "resolve", resolve);
  exportFunction(env, exports, "listOperators", listOperators);
  exportFunction(env, exports, "setTape", setTape);
}

}  // namespace serac
