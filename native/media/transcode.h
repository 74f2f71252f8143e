#pragma once
#include "napi/napi.h"

namespace serac {
void exportTranscode(napi_env env, napi_value exports);
}
