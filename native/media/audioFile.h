#pragma once
#include "napi/napi.h"

namespace serac {
void exportAudioFile(napi_env env, napi_value exports);
}
