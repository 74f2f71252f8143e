#pragma once
#include "napi/napi.h"

namespace serac {
void exportFbank(napi_env env, napi_value exports);
}
