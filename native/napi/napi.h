// What both addons share: N-API calls that throw C++ exceptions, and the guard that turns C++ exceptions into JS errors.
#pragma once
#include <node_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace serac {

// A JS exception is already pending: unwind to the guard without making another.
struct PendingException {};

// An error for JS with a code of src/util/errorCodes.ts.
struct CodedError : std::runtime_error {
  std::string code;
  CodedError(std::string code_, const std::string& message) : std::runtime_error(message), code(std::move(code_)) {}
};

inline void check(napi_env env, napi_status status) {
  if (status == napi_ok) return;
  bool pending = false;
  napi_is_exception_pending(env, &pending);
  if (pending) throw PendingException{};
  const napi_extended_error_info* info = nullptr;
  napi_get_last_error_info(env, &info);
  throw std::runtime_error(info && info->error_message ? info->error_message : "N-API call failed");
}

inline void throwJs(napi_env env, const char* code, const char* message) noexcept { napi_throw_error(env, code, message); }

// Runs `f` and returns its value; a C++ exception becomes a pending JS error whose `code` is a serac code.
template <typename F>
napi_value guard(napi_env env, F&& f) noexcept {
  try {
    return f();
  } catch (const PendingException&) {
  } catch (const CodedError& e) {
    throwJs(env, e.code.c_str(), e.what());
  } catch (const std::bad_alloc&) {
    throwJs(env, "NATIVE_FAILED", "out of memory");
  } catch (const std::exception& e) {
    throwJs(env, "NATIVE_FAILED", e.what());
  } catch (...) {
    throwJs(env, "NATIVE_FAILED", "unknown native error");
  }
  return nullptr;
}

template <size_t N>
struct Args {
  napi_value v[N];
  size_t count = N;
  Args(napi_env env, napi_callback_info info) {
    check(env, napi_get_cb_info(env, info, &count, v, nullptr, nullptr));
    if (count < N) throw std::runtime_error("internal: too few arguments to a native function");
  }
  napi_value operator[](size_t i) const { return v[i]; }
};

inline double toDouble(napi_env env, napi_value v) {
  double x = 0;
  check(env, napi_get_value_double(env, v, &x));
  return x;
}
inline int64_t toInt(napi_env env, napi_value v) {
  int64_t x = 0;
  check(env, napi_get_value_int64(env, v, &x));
  return x;
}
inline bool toBool(napi_env env, napi_value v) {
  bool x = false;
  check(env, napi_get_value_bool(env, v, &x));
  return x;
}
inline std::string toString(napi_env env, napi_value v) {
  size_t n = 0;
  check(env, napi_get_value_string_utf8(env, v, nullptr, 0, &n));
  std::string s(n, '\0');
  check(env, napi_get_value_string_utf8(env, v, s.data(), n + 1, &n));
  return s;
}
inline napi_value fromDouble(napi_env env, double x) {
  napi_value v;
  check(env, napi_create_double(env, x, &v));
  return v;
}
inline napi_value fromBool(napi_env env, bool x) {
  napi_value v;
  check(env, napi_get_boolean(env, x, &v));
  return v;
}
inline napi_value fromString(napi_env env, const std::string& s) {
  napi_value v;
  check(env, napi_create_string_utf8(env, s.data(), s.size(), &v));
  return v;
}
inline napi_value undefined(napi_env env) {
  napi_value v;
  check(env, napi_get_undefined(env, &v));
  return v;
}
inline void set(napi_env env, napi_value object, const char* key, napi_value value) { check(env, napi_set_named_property(env, object, key, value)); }

// Bytes of a typed array, DataView or Buffer; valid while the call lasts.
struct Bytes {
  uint8_t* data = nullptr;
  size_t size = 0;
};
inline Bytes toBytes(napi_env env, napi_value v) {
  bool is = false;
  check(env, napi_is_typedarray(env, v, &is));
  if (!is) throw CodedError("CONFIG_BAD_VALUE", "expected a typed array");
  napi_typedarray_type type;
  size_t length = 0, offset = 0;
  void* data = nullptr;
  napi_value buffer;
  check(env, napi_get_typedarray_info(env, v, &type, &length, &data, &buffer, &offset));
  static const size_t widths[] = {1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8};
  if (static_cast<size_t>(type) >= sizeof(widths) / sizeof(widths[0])) throw CodedError("CONFIG_BAD_VALUE", "a kind of typed array that is not supported");
  return {static_cast<uint8_t*>(data), length * widths[type]};
}

inline void exportFunction(napi_env env, napi_value exports, const char* name, napi_callback f) {
  napi_value fn;
  check(env, napi_create_function(env, name, NAPI_AUTO_LENGTH, f, nullptr, &fn));
  set(env, exports, name, fn);
}

}  // namespace serac
