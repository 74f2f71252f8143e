#include "media/task.h"

namespace serac {
namespace {

void execute(napi_env, void* data) {
  Task& task = *static_cast<Task*>(data);
  try {
    task.run();
  } catch (const CodedError& e) {
    task.code = e.code;
    task.message = e.what();
  } catch (const std::bad_alloc&) {
    task.code = "NATIVE_FAILED";
    task.message = "out of memory";
  } catch (const std::exception& e) {
    task.code = "NATIVE_FAILED";
    task.message = e.what();
  } catch (...) {
    task.code = "NATIVE_FAILED";
    task.message = "unknown native error";
  }
}

napi_value makeError(napi_env env, const std::string& code, const std::string& message) {
  napi_value error = nullptr;
  check(env, napi_create_error(env, fromString(env, code), fromString(env, message), &error));
  return error;
}

void complete(napi_env env, napi_status status, void* data) {
  std::unique_ptr<Task> task(static_cast<Task*>(data));
  napi_deferred deferred = task->deferred;
  guard(env, [&]() -> napi_value {
    napi_delete_async_work(env, task->work);
    if (status == napi_cancelled) task->code = "NATIVE_FAILED", task->message = "cancelled";
    if (task->code.empty()) {
      try {
        check(env, napi_resolve_deferred(env, deferred, task->result(env)));
        return nullptr;
      } catch (const PendingException&) {
        napi_value error;
        check(env, napi_get_and_clear_last_exception(env, &error));
        check(env, napi_reject_deferred(env, deferred, error));
        return nullptr;
      } catch (const std::exception& e) {
        task->code = "NATIVE_FAILED";
        task->message = e.what();
      }
    }
    check(env, napi_reject_deferred(env, deferred, makeError(env, task->code, task->message)));
    return nullptr;
  });
}

}  // namespace

napi_value launch(napi_env env, std::unique_ptr<Task> task) {
  napi_value promise, name = fromString(env, "serac");
  check(env, napi_create_async_work(env, nullptr, name, execute, complete, task.get(), &task->work));
  check(env, napi_create_promise(env, &task->deferred, &promise));
  check(env, napi_queue_async_work(env, task->work));
  task.release();  // complete() owns it now
  return promise;
}

}  // namespace serac
