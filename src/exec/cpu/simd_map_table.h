// Which elementwise loop belongs to which kind and element types. Included only by simd_body.h.

#define LT_INTEGER_MAPS(T, c)                                                         \
  {"Neg", c, c, 1, map1<FnNeg, T, T>}, {"Abs", c, c, 1, map1<FnAbs, T, T>},           \
      {"Sign", c, c, 1, map1<FnSign, T, T>}, {"Add", c, c, 2, map2<FnAdd, T, T>},     \
      {"Sub", c, c, 2, map2<FnSub, T, T>}, {"Mul", c, c, 2, map2<FnMul, T, T>},       \
      {"Div", c, c, 2, map2<FnDivInt, T, T>}, {"Mod", c, c, 2, map2<FnModInt, T, T>}, \
      {"Max", c, c, 2, map2<FnMax, T, T>}, {                                          \
    "Min", c, c, 2, map2<FnMin, T, T>                                                 \
  }
#define LT_COMPARE_MAPS(T, c)                                                                     \
  {"Equal", c, 'b', 2, map2<FnEqual, T, uint8_t>}, {"Less", c, 'b', 2, map2<FnLess, T, uint8_t>}, \
      {"LessOrEqual", c, 'b', 2, map2<FnLessOrEqual, T, uint8_t>},                                \
      {"Greater", c, 'b', 2, map2<FnGreater, T, uint8_t>}, {                                      \
    "GreaterOrEqual", c, 'b', 2, map2<FnGreaterOrEqual, T, uint8_t>                               \
  }
#define LT_CAST_MAPS(T, c)                                      \
  {"Cast", c, 'f', 1, map1<FnCast<float>, T, float>},           \
      {"Cast", c, 'd', 1, map1<FnCast<double>, T, double>},     \
      {"Cast", c, 'l', 1, map1<FnCast<int64_t>, T, int64_t>},   \
      {"Cast", c, 'i', 1, map1<FnCast<int32_t>, T, int32_t>},   \
      {"Cast", c, 'b', 1, map1<FnCast<uint8_t>, T, uint8_t>}, { \
    "Cast/bool", c, 'b', 1, map1<FnCastBool, T, uint8_t>        \
  }
#define LT_FLOAT1(kind, F) \
  { kind, 'f', 'f', 1, map1<F, float, float> }
#define LT_FLOAT2(kind, F) \
  { kind, 'f', 'f', 2, map2<F, float, float> }

const MapEntry kMaps[] = {
    LT_FLOAT1("Relu", FnRelu),
    LT_FLOAT1("Sigmoid", FnSigmoid),
    LT_FLOAT1("Tanh", FnTanh),
    LT_FLOAT1("Erf", FnErf),
    LT_FLOAT1("Exp", FnExp),
    LT_FLOAT1("Log", FnLog),
    LT_FLOAT1("Sqrt", FnSqrt),
    LT_FLOAT1("Reciprocal", FnReciprocal),
    LT_FLOAT1("Neg", FnNeg),
    LT_FLOAT1("Abs", FnAbsFloat),
    LT_FLOAT1("Sin", FnSin),
    LT_FLOAT1("Cos", FnCos),
    LT_FLOAT1("Floor", FnFloor),
    LT_FLOAT1("Ceil", FnCeil),
    LT_FLOAT1("Round", FnRound),
    LT_FLOAT1("Sign", FnSign),
    LT_FLOAT1("Softplus", FnSoftplus),
    LT_FLOAT1("HardSwish", FnHardSwish),
    LT_FLOAT1("Mish", FnMish),
    LT_FLOAT1("LeakyRelu", FnLeakyRelu),
    LT_FLOAT1("Elu", FnElu),
    LT_FLOAT1("HardSigmoid", FnHardSigmoid),
    LT_FLOAT1("Gelu", FnGelu),
    LT_FLOAT1("Gelu/tanh", FnGeluTanh),
    LT_FLOAT1("Silu", FnSilu),
    LT_FLOAT1("Clip", FnClip),
    LT_FLOAT1("PowScalar", FnPow),
    LT_FLOAT1("PowScalar/2", FnSquare),
    LT_FLOAT1("PowScalar/3", FnCube),
    LT_FLOAT1("AffineScalar", FnAffine),
    {"IsNaN", 'f', 'b', 1, map1<FnIsNan, float, uint8_t>},
    {"Not", 'b', 'b', 1, map1<FnNot, uint8_t, uint8_t>},
    {"Copy", '4', '4', 1, map1<FnIdentity, uint32_t, uint32_t>},
    {"Copy", '8', '8', 1, map1<FnIdentity, uint64_t, uint64_t>},
    {"Copy", '2', '2', 1, map1<FnIdentity, uint16_t, uint16_t>},
    {"Copy", '1', '1', 1, map1<FnIdentity, uint8_t, uint8_t>},
    LT_FLOAT2("Add", FnAdd),
    LT_FLOAT2("Sub", FnSub),
    LT_FLOAT2("Mul", FnMul),
    LT_FLOAT2("Div", FnDiv),
    LT_FLOAT2("Max", FnMax),
    LT_FLOAT2("Min", FnMin),
    LT_FLOAT2("Pow", FnPow2),
    LT_FLOAT2("Mod", FnModFloat),
    LT_FLOAT2("ReluGrad", FnReluGrad),
    LT_FLOAT2("SigmoidGrad", FnSigmoidGrad),
    LT_FLOAT2("TanhGrad", FnTanhGrad),
    LT_FLOAT2("GeluGrad", FnGeluGrad),
    LT_FLOAT2("GeluGrad/tanh", FnGeluTanhGrad),
    LT_FLOAT2("SiluGrad", FnSiluGrad),
    LT_FLOAT2("LeakyReluGrad", FnLeakyReluGrad),
    LT_FLOAT2("EluGrad", FnEluGrad),
    LT_FLOAT2("HardSigmoidGrad", FnHardSigmoidGrad),
    LT_FLOAT2("HardSwishGrad", FnHardSwishGrad),
    LT_FLOAT2("ClipGrad", FnClipGrad),
    LT_FLOAT2("SoftplusGrad", FnSoftplusGrad),
    LT_FLOAT2("MishGrad", FnMishGrad),
    LT_FLOAT2("ErfGrad", FnErfGrad),
    LT_FLOAT2("MseLossGrad", FnMseLossGrad),
    LT_FLOAT2("RunningUpdate", FnRunningUpdate),
    {"And", 'b', 'b', 2, map2<FnAnd, uint8_t, uint8_t>},
    {"Or", 'b', 'b', 2, map2<FnOr, uint8_t, uint8_t>},
    {"Xor", 'b', 'b', 2, map2<FnXor, uint8_t, uint8_t>},
    LT_INTEGER_MAPS(int64_t, 'l'),
    LT_INTEGER_MAPS(int32_t, 'i'),
    LT_COMPARE_MAPS(float, 'f'),
    LT_COMPARE_MAPS(int64_t, 'l'),
    LT_COMPARE_MAPS(int32_t, 'i'),
    LT_COMPARE_MAPS(uint8_t, 'b'),
    LT_CAST_MAPS(float, 'f'),
    LT_CAST_MAPS(double, 'd'),
    LT_CAST_MAPS(int64_t, 'l'),
    LT_CAST_MAPS(int32_t, 'i'),
    LT_CAST_MAPS(uint8_t, 'b'),
    {"Where", '4', '4', 3, map_where<uint32_t>},
    {"Where", '8', '8', 3, map_where<uint64_t>},
    {"Where", '1', '1', 3, map_where<uint8_t>},
};

#undef LT_INTEGER_MAPS
#undef LT_COMPARE_MAPS
#undef LT_CAST_MAPS
#undef LT_FLOAT1
#undef LT_FLOAT2
