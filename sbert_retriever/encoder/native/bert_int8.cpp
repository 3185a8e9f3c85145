// BERT for inference: int8 matrix products with AVX512-VNNI, all else in float32.
//
// Texts lie one after the other without padding. A thread takes a few whole texts through all
// layers, so that threads never wait for each other and activations stay in the cache. Each
// product is followed in place by what comes after it: bias, GELU, residual, layer norm, and the
// rounding of its rows to uint8 for the next product.
//
// A row x of activations is x = scale * (q - zero), q in 0..255; a column w of weights is
// w = wscale * p, p in -127..127; so x.w = scale * wscale * (sum(q p) - zero * sum(p)).

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

namespace {

constexpr int LANES = 16;   // floats in a register
constexpr int ROWS = 6;     // rows of a product at a time
constexpr int COLUMNS = 64; // columns of a product at a time: four registers
constexpr int TILE = 48;    // rows that go through the feed-forward part together

int round_up(int n, int to) { return (n + to - 1) / to * to; }

}  // namespace

extern "C" {

// One affine map: weights in panels of 64 columns, (columns / 64, in / 4, 64, 4) int8.
struct Linear {
    const int8_t* weight;
    const float* scale;    // (columns,)
    const int32_t* sums;   // (columns,) of the weights of each column
    const float* bias;     // (columns,)
    int32_t in;            // rounded up to a multiple of 4
    int32_t columns;       // rounded up to a multiple of 64
};

struct Layer {
    Linear qkv, out, up, down;
    const float *scale1, *shift1, *scale2, *shift2;
};

struct Model {
    const Layer* layers;
    const float* words;    // (vocabulary, width)
    const float* places;   // (types, positions, width)
    const float *scale, *shift;
    int32_t layer_count, width, inner, heads, positions;
    int32_t activation;    // 0 is GELU, 1 its tanh form, 2 ReLU
    float eps;
};

struct Batch {
    const int64_t* ids;    // (tokens,)
    const int64_t* types;  // (tokens,), or null where all are 0
    const int64_t* starts; // (texts + 1,) where each text begins among the tokens
    const int64_t* rows;   // (texts,) where each text's states go in `states`
    float* states;         // (rows, width)
    int64_t texts;
    int32_t first_only;    // whether only each text's first state is wanted
    int32_t threads;
    int32_t share;         // tokens that a thread takes at a time
};

}  // extern "C"

namespace {

// ---------------------------------------------------------------- memory

template <typename T>
class Buffer {
public:
    explicit Buffer(size_t n = 0) { reserve(n); }
    ~Buffer() { std::free(data_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    T* reserve(size_t n) {
        if (n > size_) {
            std::free(data_);
            size_ = n;
            data_ = static_cast<T*>(std::aligned_alloc(64, (n * sizeof(T) + 127) / 64 * 64));
            if (data_ == nullptr) { size_ = 0; throw std::bad_alloc(); }
        }
        return data_;
    }
    T* get() const { return data_; }

private:
    T* data_ = nullptr;
    size_t size_ = 0;
};

// Rows rounded to uint8.
struct Quantised {
    uint8_t* rows;
    float* scale;
    int32_t* zero;
    int stride;
};

// ---------------------------------------------------------------- functions of a register

inline __m512 exp2_of(__m512 x) {
    x = _mm512_max_ps(x, _mm512_set1_ps(-126.0f));
    const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 f = _mm512_sub_ps(x, whole);
    // Taylor's series of 2^f = e^(f ln 2) for |f| <= 1/2, to the sixth power: error 1e-7.
    __m512 p = _mm512_set1_ps(1.5403530e-4f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.3333558e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.6181291e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.5504109e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4022651e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9314718e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, whole);
}

inline __m512 gelu_of(__m512 x) {
    // x * (1/2 + x * P(x^2)) with |x| held to 4.25, past which the normal distribution is 0 or 1
    // within 1.1e-5. P was fitted to it, reweighted towards the least largest error: 5.4e-5.
    static const float terms[] = {3.988244971e-01f, -6.619451724e-02f, 9.719539103e-03f,
                                  -1.078958545e-03f, 8.843212085e-05f, -5.139615532e-06f,
                                  1.980826805e-07f, -4.497375840e-09f, 4.523023589e-11f};
    const __m512 limit = _mm512_set1_ps(4.25f);
    const __m512 c = _mm512_max_ps(_mm512_min_ps(x, limit), _mm512_sub_ps(_mm512_setzero_ps(), limit));
    const __m512 s = _mm512_mul_ps(c, c);
    constexpr int n = sizeof(terms) / sizeof(terms[0]);
    __m512 p = _mm512_set1_ps(terms[n - 1]);
#pragma GCC unroll 16
    for (int i = n - 2; i >= 0; --i) p = _mm512_fmadd_ps(p, s, _mm512_set1_ps(terms[i]));
    return _mm512_mul_ps(x, _mm512_fmadd_ps(c, p, _mm512_set1_ps(0.5f)));
}

inline __m512 tanh_gelu_of(__m512 x) {
    // x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
    const __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
    const __m512 u = _mm512_fmadd_ps(cube, _mm512_set1_ps(0.044715f), x);
    const __m512 e = exp2_of(_mm512_mul_ps(
        _mm512_min_ps(u, _mm512_set1_ps(40.0f)), _mm512_set1_ps(-2.0f * 0.7978845608f * 1.44269504f)));
    const __m512 e_held = _mm512_min_ps(e, _mm512_set1_ps(1e30f));
    return _mm512_div_ps(x, _mm512_add_ps(e_held, _mm512_set1_ps(1.0f)));
}

inline __mmask16 tail(int n) { return n >= LANES ? 0xffff : static_cast<__mmask16>((1u << n) - 1); }

// ---------------------------------------------------------------- int8 products

// Sums of products (R, 64) to float32 with the bias.
template <int R>
inline void finish(const int32_t (&totals)[R][COLUMNS], const Quantised& a, int row, const Linear& w,
                   int first, float* out, int stride) {
    for (int c = 0; c < COLUMNS; c += LANES) {
        const __m512i sums = _mm512_loadu_si512(w.sums + first + c);
        const __m512 scale = _mm512_loadu_ps(w.scale + first + c);
        const __m512 bias = _mm512_loadu_ps(w.bias + first + c);
        for (int r = 0; r < R; ++r) {
            const __m512i zero = _mm512_set1_epi32(a.zero[row + r]);
            const __m512i exact = _mm512_sub_epi32(_mm512_load_si512(&totals[r][c]),
                                                   _mm512_mullo_epi32(zero, sums));
            const __m512 both = _mm512_mul_ps(_mm512_set1_ps(a.scale[row + r]), scale);
            _mm512_storeu_ps(out + static_cast<size_t>(r) * stride + first + c,
                             _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), both, bias));
        }
    }
}

// Rows (R, in) uint8 by one panel of 64 columns, to float32 with the bias.
template <int R>
inline void block(const Quantised& a, int row, const Linear& w, int panel, float* out, int stride) {
    __m512i sum[R][4];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) sum[r][c] = _mm512_setzero_si512();
    const int8_t* b = w.weight + static_cast<size_t>(panel) * w.in * COLUMNS;
    const uint8_t* rows = a.rows + static_cast<size_t>(row) * a.stride;
    for (int k = 0; k < w.in; k += 4, b += 4 * COLUMNS) {
        const __m512i b0 = _mm512_load_si512(b), b1 = _mm512_load_si512(b + 64);
        const __m512i b2 = _mm512_load_si512(b + 128), b3 = _mm512_load_si512(b + 192);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
            int32_t four;
            std::memcpy(&four, rows + static_cast<size_t>(r) * a.stride + k, 4);
            const __m512i x = _mm512_set1_epi32(four);
            sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], x, b0);
            sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], x, b1);
            sum[r][2] = _mm512_dpbusd_epi32(sum[r][2], x, b2);
            sum[r][3] = _mm512_dpbusd_epi32(sum[r][3], x, b3);
        }
    }
    // Through memory, so that the compiler keeps the sums in registers all through the loop above.
    alignas(64) int32_t totals[R][COLUMNS];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) _mm512_store_si512(&totals[r][c * LANES], sum[r][c]);
    finish<R>(totals, a, row, w, panel * COLUMNS, out, stride);
}

// Rows [from, to) by all columns; row `from` goes to out[0].
void product(const Quantised& a, int from, int to, const Linear& w, float* out, int stride) {
    for (int panel = 0; panel < w.columns / COLUMNS; ++panel) {
        int row = from;
        for (; row + ROWS <= to; row += ROWS)
            block<ROWS>(a, row, w, panel, out + static_cast<size_t>(row - from) * stride, stride);
        float* rest = out + static_cast<size_t>(row - from) * stride;
        switch (to - row) {
            case 5: block<5>(a, row, w, panel, rest, stride); break;
            case 4: block<4>(a, row, w, panel, rest, stride); break;
            case 3: block<3>(a, row, w, panel, rest, stride); break;
            case 2: block<2>(a, row, w, panel, rest, stride); break;
            case 1: block<1>(a, row, w, panel, rest, stride); break;
            default: break;
        }
    }
}

// Round one row (width,) to uint8; what lies past the width is 0.
void quantise(const float* x, int width, const Quantised& to, int row) {
    __m512 low = _mm512_setzero_ps(), high = _mm512_setzero_ps();
    for (int i = 0; i < width; i += LANES) {
        const __m512 v = _mm512_maskz_loadu_ps(tail(width - i), x + i);
        low = _mm512_min_ps(low, v);
        high = _mm512_max_ps(high, v);
    }
    const float least = _mm512_reduce_min_ps(low), most = _mm512_reduce_max_ps(high);
    const float scale = std::max((most - least) / 255.0f, 1e-20f);
    const float inverse = 1.0f / scale;
    const int32_t zero = static_cast<int32_t>(std::nearbyint(-least * inverse));
    to.scale[row] = scale;
    to.zero[row] = zero;
    uint8_t* out = to.rows + static_cast<size_t>(row) * to.stride;
    const __m512 factor = _mm512_set1_ps(inverse);
    const __m512i shift = _mm512_set1_epi32(zero);
    for (int i = 0; i < width; i += LANES) {
        const __mmask16 mask = tail(width - i);
        const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor);
        const __m512i q = _mm512_max_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(v), shift),
                                           _mm512_setzero_si512());
        _mm_mask_storeu_epi8(out + i, mask, _mm512_cvtusepi32_epi8(q));
    }
    for (int i = width; i < to.stride; ++i) out[i] = 0;
}

// ---------------------------------------------------------------- what lies between products

// x = layer norm of (x + added), both (width,); `added` may be null.
void normalise(float* x, const float* added, int width, const float* scale, const float* shift, float eps) {
    __m512 total = _mm512_setzero_ps();
    for (int i = 0; i < width; i += LANES) {
        const __mmask16 mask = tail(width - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        if (added != nullptr) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, added + i));
        _mm512_mask_storeu_ps(x + i, mask, v);
        total = _mm512_add_ps(total, v);
    }
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(total) / static_cast<float>(width));
    __m512 squares = _mm512_setzero_ps();
    for (int i = 0; i < width; i += LANES) {
        const __mmask16 mask = tail(width - i);
        const __m512 v = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, x + i), mean);
        squares = _mm512_fmadd_ps(v, v, squares);
    }
    const float variance = _mm512_reduce_add_ps(squares) / static_cast<float>(width);
    const __m512 factor = _mm512_set1_ps(1.0f / std::sqrt(variance + eps));
    for (int i = 0; i < width; i += LANES) {
        const __mmask16 mask = tail(width - i);
        const __m512 v = _mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), mean), factor);
        const __m512 y = _mm512_fmadd_ps(v, _mm512_maskz_loadu_ps(mask, scale + i),
                                         _mm512_maskz_loadu_ps(mask, shift + i));
        _mm512_mask_storeu_ps(x + i, mask, y);
    }
}

void activate(float* x, int width, int kind) {
    for (int i = 0; i < width; i += LANES) {
        const __mmask16 mask = tail(width - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        if (kind == 0) v = gelu_of(v);
        else if (kind == 1) v = tanh_gelu_of(v);
        else v = _mm512_max_ps(v, _mm512_setzero_ps());
        _mm512_mask_storeu_ps(x + i, mask, v);
    }
}

// ---------------------------------------------------------------- attention

// S (R, C * 16) = Q (R, size) by K transposed (size, stride).
template <int R, int C>
__attribute__((noinline)) void dot_block(const float* q, int q_stride, const float* keys, int stride, int size,
               float* s, int s_stride) {
    __m512 sum[R][C];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sum[r][c] = _mm512_setzero_ps();
    for (int k = 0; k < size; ++k) {
        __m512 b[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) b[c] = _mm512_load_ps(keys + static_cast<size_t>(k) * stride + c * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
            const __m512 x = _mm512_set1_ps(q[static_cast<size_t>(r) * q_stride + k]);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) sum[r][c] = _mm512_fmadd_ps(x, b[c], sum[r][c]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c)
            _mm512_store_ps(s + static_cast<size_t>(r) * s_stride + c * LANES, sum[r][c]);
}

template <int R>
inline void dot_rows(const float* q, int q_stride, const float* keys, int stride, int size,
                     int columns, float* s, int s_stride) {
    int c = 0;
    for (; c + 64 <= columns; c += 64)
        dot_block<R, 4>(q, q_stride, keys + c, stride, size, s + c, s_stride);
    switch ((columns - c) / LANES) {
        case 3: dot_block<R, 3>(q, q_stride, keys + c, stride, size, s + c, s_stride); break;
        case 2: dot_block<R, 2>(q, q_stride, keys + c, stride, size, s + c, s_stride); break;
        case 1: dot_block<R, 1>(q, q_stride, keys + c, stride, size, s + c, s_stride); break;
        default: break;
    }
}

// (R, C * 16) of weights (R, length) by values (length, stride), each row over its `total`.
template <int R, int C>
__attribute__((noinline)) void mix_block(const float* s, int s_stride, const float* values, int stride, int length,
                      const float* total, float* out, int out_stride, int width) {
    __m512 sum[R][C];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sum[r][c] = _mm512_setzero_ps();
    for (int k = 0; k < length; ++k) {
        __m512 b[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) b[c] = _mm512_load_ps(values + static_cast<size_t>(k) * stride + c * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) {
            const __m512 x = _mm512_set1_ps(s[static_cast<size_t>(r) * s_stride + k]);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) sum[r][c] = _mm512_fmadd_ps(x, b[c], sum[r][c]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
        const __m512 share = _mm512_set1_ps(1.0f / total[r]);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c)
            _mm512_mask_storeu_ps(out + static_cast<size_t>(r) * out_stride + c * LANES,
                                  tail(width - c * LANES), _mm512_mul_ps(sum[r][c], share));
    }
}

template <int R>
inline void mix_rows(const float* s, int s_stride, const float* values, int stride, int length,
                     const float* total, float* out, int out_stride, int width) {
    int c = 0;
    for (; c + 32 <= stride; c += 32)
        mix_block<R, 2>(s, s_stride, values + c, stride, length, total, out + c, out_stride, width - c);
    if (c < stride)
        mix_block<R, 1>(s, s_stride, values + c, stride, length, total, out + c, out_stride, width - c);
}

// s = 2^(s - max), 0 from `length` on; gives the sum.
inline float soften(float* s, int length, int columns) {
    __m512 most = _mm512_set1_ps(-INFINITY);
    for (int i = 0; i < length; i += LANES)
        most = _mm512_mask_max_ps(most, tail(length - i), most, _mm512_load_ps(s + i));
    const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(most));
    __m512 total = _mm512_setzero_ps();
    for (int i = 0; i < columns; i += LANES) {
        const int left = length - i;
        const __mmask16 mask = left <= 0 ? 0 : tail(left);
        const __m512 v = _mm512_maskz_mov_ps(mask, exp2_of(_mm512_sub_ps(_mm512_load_ps(s + i), top)));
        _mm512_store_ps(s + i, v);
        total = _mm512_add_ps(total, v);
    }
    return _mm512_reduce_add_ps(total);
}

struct Scratch {
    Buffer<float> states, qkv, mixed, inner, keys, values, queries, scores;
    Buffer<uint8_t> state_bytes, mixed_bytes, inner_bytes;
    Buffer<float> state_scales, mixed_scales, inner_scales;
    Buffer<int32_t> state_zeros, mixed_zeros, inner_zeros;
};

// One head of one text, from some query on.
struct Heads {
    const float *queries, *keys, *values;
    int size, columns, value_stride, length;
};

template <int R>
inline void attend_rows(const Heads& h, float* s, float* out, int out_stride) {
    float total[R];
    dot_rows<R>(h.queries, h.size, h.keys, h.columns, h.size, h.columns, s, h.columns);
    for (int r = 0; r < R; ++r) total[r] = soften(s + static_cast<size_t>(r) * h.columns, h.length, h.columns);
    mix_rows<R>(s, h.columns, h.values, h.value_stride, h.length, total, out, out_stride, h.size);
}

// Attention of one text: qkv (length, stride) to out (queries, out_stride).
void attend(const float* qkv, int stride, int length, int queries, int width, int heads, Scratch& t,
            float* out, int out_stride) {
    const int size = width / heads;
    const int columns = round_up(length, LANES), value_stride = round_up(size, LANES);
    float* keys = t.keys.reserve(static_cast<size_t>(size) * columns);
    float* values = t.values.reserve(static_cast<size_t>(length) * value_stride);
    float* q = t.queries.reserve(static_cast<size_t>(queries) * size);
    float* s = t.scores.reserve(static_cast<size_t>(ROWS) * columns);
    const float factor = 1.44269504f / std::sqrt(static_cast<float>(size));
    for (int head = 0; head < heads; ++head) {
        const float* from = qkv + static_cast<size_t>(head) * size;
        for (int j = 0; j < columns; ++j) {
            const float* key = from + static_cast<size_t>(j) * stride + width;
            for (int i = 0; i < size; ++i) keys[static_cast<size_t>(i) * columns + j] = j < length ? key[i] : 0.0f;
        }
        for (int j = 0; j < length; ++j) {
            const float* value = from + static_cast<size_t>(j) * stride + 2 * width;
            for (int i = 0; i < size; ++i) values[static_cast<size_t>(j) * value_stride + i] = value[i];
            for (int i = size; i < value_stride; ++i) values[static_cast<size_t>(j) * value_stride + i] = 0.0f;
        }
        for (int j = 0; j < queries; ++j)
            for (int i = 0; i < size; ++i) q[static_cast<size_t>(j) * size + i] = factor * from[static_cast<size_t>(j) * stride + i];
        float* to = out + static_cast<size_t>(head) * size;
        for (int j = 0; j < queries; j += ROWS) {
            const Heads h{q + static_cast<size_t>(j) * size, keys, values, size, columns, value_stride, length};
            float* here = to + static_cast<size_t>(j) * out_stride;
            switch (std::min(ROWS, queries - j)) {
                case 6: attend_rows<6>(h, s, here, out_stride); break;
                case 5: attend_rows<5>(h, s, here, out_stride); break;
                case 4: attend_rows<4>(h, s, here, out_stride); break;
                case 3: attend_rows<3>(h, s, here, out_stride); break;
                case 2: attend_rows<2>(h, s, here, out_stride); break;
                default: attend_rows<1>(h, s, here, out_stride); break;
            }
        }
    }
}

// ---------------------------------------------------------------- the model

void embed(const Model& m, const Batch& b, int64_t from, int64_t to, Scratch& t, const Quantised& bytes) {
    for (int64_t text = from; text < to; ++text) {
        for (int64_t token = b.starts[text]; token < b.starts[text + 1]; ++token) {
            const int row = static_cast<int>(token - b.starts[from]);
            const int64_t place = token - b.starts[text], type = b.types == nullptr ? 0 : b.types[token];
            float* x = t.states.get() + static_cast<size_t>(row) * m.width;
            std::memcpy(x, m.words + b.ids[token] * m.width, sizeof(float) * m.width);
            normalise(x, m.places + (type * m.positions + place) * m.width, m.width, m.scale, m.shift, m.eps);
            quantise(x, m.width, bytes, row);
        }
    }
}

// All that follows the attention: states (rows, width) and their bytes are replaced.
void feed_forward(const Model& m, const Layer& l, int rows, Scratch& t, const Quantised& mixed,
                  const Quantised& bytes) {
    const int inner = l.up.columns, width = l.down.columns;
    float* wide = t.inner.reserve(static_cast<size_t>(TILE) * std::max(inner, width));
    const Quantised wide_bytes{t.inner_bytes.reserve(static_cast<size_t>(TILE) * l.down.in),
                               t.inner_scales.reserve(TILE), t.inner_zeros.reserve(TILE), l.down.in};
    for (int from = 0; from < rows; from += TILE) {
        const int to = std::min(rows, from + TILE);
        float* states = t.states.get() + static_cast<size_t>(from) * m.width;
        product(mixed, from, to, l.out, wide, width);
        for (int r = 0; r < to - from; ++r) {
            float* x = states + static_cast<size_t>(r) * m.width;
            normalise(x, wide + static_cast<size_t>(r) * width, m.width, l.scale1, l.shift1, m.eps);
            quantise(x, m.width, bytes, from + r);
        }
        product(bytes, from, to, l.up, wide, inner);
        for (int r = 0; r < to - from; ++r) {
            activate(wide + static_cast<size_t>(r) * inner, m.inner, m.activation);
            quantise(wide + static_cast<size_t>(r) * inner, m.inner, wide_bytes, r);
        }
        product(wide_bytes, 0, to - from, l.down, wide, width);
        for (int r = 0; r < to - from; ++r) {
            float* x = states + static_cast<size_t>(r) * m.width;
            normalise(x, wide + static_cast<size_t>(r) * width, m.width, l.scale2, l.shift2, m.eps);
            quantise(x, m.width, bytes, from + r);
        }
    }
}

// Texts [from, to) through all layers.
void run_texts(const Model& m, const Batch& b, int64_t from, int64_t to, Scratch& t) {
    const int tokens = static_cast<int>(b.starts[to] - b.starts[from]), texts = static_cast<int>(to - from);
    const Layer& any = m.layers[0];
    float* states = t.states.reserve(static_cast<size_t>(tokens) * m.width);
    float* qkv = t.qkv.reserve(static_cast<size_t>(tokens) * any.qkv.columns);
    float* mixed = t.mixed.reserve(static_cast<size_t>(tokens) * m.width);
    const Quantised bytes{t.state_bytes.reserve(static_cast<size_t>(tokens) * any.qkv.in),
                          t.state_scales.reserve(tokens), t.state_zeros.reserve(tokens), any.qkv.in};
    const Quantised mixed_bytes{t.mixed_bytes.reserve(static_cast<size_t>(tokens) * any.out.in),
                                t.mixed_scales.reserve(tokens), t.mixed_zeros.reserve(tokens), any.out.in};
    embed(m, b, from, to, t, bytes);
    for (int number = 0; number < m.layer_count; ++number) {
        const Layer& l = m.layers[number];
        const bool first = b.first_only && number + 1 == m.layer_count;
        product(bytes, 0, tokens, l.qkv, qkv, l.qkv.columns);
        int rows = 0;
        for (int64_t text = from; text < to; ++text) {
            const int start = static_cast<int>(b.starts[text] - b.starts[from]);
            const int length = static_cast<int>(b.starts[text + 1] - b.starts[text]);
            const int wanted = first ? std::min(1, length) : length;
            attend(qkv + static_cast<size_t>(start) * l.qkv.columns, l.qkv.columns, length, wanted, m.width,
                   m.heads, t, mixed + static_cast<size_t>(rows) * m.width, m.width);
            if (first) std::memmove(states + static_cast<size_t>(rows) * m.width,
                                    states + static_cast<size_t>(start) * m.width, sizeof(float) * m.width);
            rows += wanted;
        }
        for (int r = 0; r < rows; ++r) quantise(mixed + static_cast<size_t>(r) * m.width, m.width, mixed_bytes, r);
        feed_forward(m, l, rows, t, mixed_bytes, bytes);
    }
    for (int i = 0; i < texts; ++i) {
        const int start = b.first_only ? i : static_cast<int>(b.starts[from + i] - b.starts[from]);
        const int count = b.first_only ? 1 : static_cast<int>(b.starts[from + i + 1] - b.starts[from + i]);
        std::memcpy(b.states + static_cast<size_t>(b.rows[from + i]) * m.width,
                    states + static_cast<size_t>(start) * m.width, sizeof(float) * m.width * count);
    }
}

// Where the texts are cut into shares of about `share` tokens.
std::vector<int64_t> shares(const Batch& b) {
    std::vector<int64_t> cuts{0};
    for (int64_t text = 0; text < b.texts; ++text)
        if (b.starts[text + 1] - b.starts[cuts.back()] >= b.share) cuts.push_back(text + 1);
    if (cuts.back() != b.texts) cuts.push_back(b.texts);
    return cuts;
}

}  // namespace

extern "C" int32_t sbert_bert_int8(const Model* model, const Batch* batch) {
    try {
        const std::vector<int64_t> cuts = shares(*batch);
        std::atomic<size_t> next{0};
        std::atomic<bool> failed{false};
        const auto work = [&] {
            try {
                Scratch scratch;
                for (size_t i = next++; i + 1 < cuts.size(); i = next++)
                    run_texts(*model, *batch, cuts[i], cuts[i + 1], scratch);
            } catch (const std::bad_alloc&) { failed = true; }
        };
        const size_t wanted = std::min<size_t>(batch->threads, cuts.size() - 1);
        std::vector<std::thread> others;
        try {
            for (size_t i = 1; i < wanted; ++i) others.emplace_back(work);
        } catch (const std::exception&) {
            // The system has no more threads: those that run do it all. Leaving here would end the
            // process, which a thread does that is let go while it runs.
        }
        work();
        for (std::thread& other : others) other.join();
        return failed ? 1 : 0;
    } catch (const std::exception&) {
        return 1;
    }
}
