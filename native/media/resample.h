#pragma once
#include "napi/napi.h"

namespace serac {
void exportResample(napi_env env, napi_value exports);
}
