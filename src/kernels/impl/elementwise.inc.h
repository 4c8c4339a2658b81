// Norms, rotary embedding, activation, loss, optimiser. Loops without horizontal sums are left to
// the compiler: IEEE operations lane by lane have the same bits at every vector width.

void to_half(const float* x, int64_t n, Half* y) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store_half(y + i, load(x + i));
  for (; i < n; ++i) y[i] = float_to_half_bits(x[i]);
}

void half_to_float(const Half* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, load_half(x + i));
  for (; i < n; ++i) y[i] = half_bits_to_float(x[i]);
}

void add_rows(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

/// sum of a b over n elements, in 16 lanes.
RETORT_INLINE float dot(const float* a, const float* b, int64_t n) {
  F32x16 sum = zero();
  for (int64_t k = 0; k < n; k += 16)
    sum = fma(load_first(a + k, n - k), load_first(b + k, n - k), sum);
  return reduce_add(sum);
}

RETORT_INLINE float inverse_rms(const float* x, int64_t n, float eps) {
  return 1.0f / __builtin_sqrtf(dot(x, x, n) / static_cast<float>(n) + eps);
}

void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t cols,
              float* y) {
  for (int64_t i = 0; i < rows; ++i, x += cols, y += cols) {
    const float r = inverse_rms(x, cols, eps);
    for (int64_t k = 0; k < cols; ++k) y[k] = x[k] * r * weight[k];
  }
}

/// y = r x w with r = (mean x^2 + eps)^-1/2:  dx = r (w dy) - x r^3 mean(w dy x).
void rms_norm_gradient(const float* x, const float* weight, float eps, const float* dy,
                       int64_t rows, int64_t cols, float* dx) {
  for (int64_t i = 0; i < rows; ++i, x += cols, dy += cols, dx += cols) {
    const float r = inverse_rms(x, cols, eps);
    F32x16 sum = zero();
    for (int64_t k = 0; k < cols; k += 16) {
      const int64_t n = cols - k;
      const F32x16 g = mul(load_first(weight + k, n), load_first(dy + k, n));
      sum = fma(g, load_first(x + k, n), sum);
    }
    const float c = r * r * r * (reduce_add(sum) / static_cast<float>(cols));
    for (int64_t k = 0; k < cols; ++k) dx[k] += weight[k] * dy[k] * r - x[k] * c;
  }
}

void rope(float* x, int64_t heads, int64_t head_dim, int64_t rotary_dims, const float* cos,
          const float* sin, bool interleaved, bool inverse) {
  const int64_t half = rotary_dims / 2, step = interleaved ? 2 : 1, other = interleaved ? 1 : half;
  const float sign = inverse ? -1.0f : 1.0f;
  for (int64_t h = 0; h < heads; ++h, x += head_dim)
    for (int64_t i = 0; i < half; ++i) {
      float* a = x + i * step;
      const float s = sin[i] * sign, x0 = a[0], x1 = a[other];
      a[0] = x0 * cos[i] - x1 * s;
      a[other] = x0 * s + x1 * cos[i];
    }
}

RETORT_INLINE F32x16 sigmoid(F32x16 x) {
  const F32x16 one = broadcast(1.0f);
  return div(one, add(one, exp(sub(zero(), x))));
}

void silu_mul(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += 16) {
    const F32x16 g = load_first(gate + i, n - i), u = load_first(up + i, n - i);
    store_first(y + i, n - i, mul(mul(g, sigmoid(g)), u));
  }
}

/// With s = sigmoid(g): silu'(g) = s (1 + g (1 - s)).
void silu_mul_gradient(const float* gate, const float* up, const float* dy, int64_t n, float* dgate,
                       float* dup) {
  const F32x16 one = broadcast(1.0f);
  for (int64_t i = 0; i < n; i += 16) {
    const int64_t m = n - i;
    const F32x16 g = load_first(gate + i, m), d = load_first(dy + i, m), s = sigmoid(g);
    const F32x16 slope = mul(s, fma(g, sub(one, s), one));
    store_first(dup + i, m, mul(d, mul(g, s)));
    store_first(dgate + i, m, mul(mul(d, load_first(up + i, m)), slope));
  }
}

RETORT_INLINE float largest(const float* x, int64_t n) {
  F32x16 top = broadcast(-__builtin_inff());
  for (int64_t i = 0; i < n; i += 16) top = max(top, load_first(x + i, n - i, -__builtin_inff()));
  return reduce_max(top);
}

/// sum exp(x - top), in four sums of 16 lanes.
float sum_exp(const float* x, int64_t n, float top) {
  F32x16 sum[4] = {zero(), zero(), zero(), zero()};
  const F32x16 shift = broadcast(top);
  for (int64_t i = 0; i < n; i += 16) {
    F32x16& s = sum[i / 16 % 4];
    s = add(s, exp(sub(load_first(x + i, n - i, -__builtin_inff()), shift)));
  }
  return reduce_add(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
}

RETORT_INLINE float negative_log(float logit, float top, float sum) {
  return static_cast<float>(__builtin_log(static_cast<double>(sum)) -
                            static_cast<double>(logit - top));
}

float cross_entropy(const float* logits, int64_t n, int64_t target) {
  const float top = largest(logits, n);
  return negative_log(logits[target], top, sum_exp(logits, n, top));
}

float cross_entropy_gradient(float* logits, int64_t n, int64_t target, float weight) {
  const float top = largest(logits, n), sum = sum_exp(logits, n, top);
  const float loss = negative_log(logits[target], top, sum);
  const F32x16 shift = broadcast(top), factor = broadcast(weight / sum);
  for (int64_t i = 0; i < n; i += 16) {
    const F32x16 x = load_first(logits + i, n - i);
    store_first(logits + i, n - i, mul(exp(sub(x, shift)), factor));
  }
  logits[target] -= weight;
  return loss;
}

void adamw(const AdamW& o, const float* gradient, int64_t n, float* parameter, float* m, float* v) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = gradient[i] * o.gradient_scale;
    m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
    v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
    const float step = m[i] / o.correction1 / (__builtin_sqrtf(v[i] / o.correction2) + o.epsilon);
    parameter[i] -= o.learning_rate * (step + o.weight_decay * parameter[i]);
  }
}

double sum_of_squares(const float* x, int64_t n) {
  double lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int j = 0; j < 16; ++j)
      lanes[j] += static_cast<double>(x[i + j]) * static_cast<double>(x[i + j]);
  for (; i < n; ++i) lanes[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}
