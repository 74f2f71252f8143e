#pragma once
#include "napi/napi.h"

namespace serac {
void exportSentencePiece(napi_env env, napi_value exports);
}
