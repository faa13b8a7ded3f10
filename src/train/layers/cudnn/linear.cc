// Linear layers: three products by cuBLAS, and the bias by cuDNN. cuBLAS matrices are column-major,
// so each of our row-major matrices is passed as its transpose.
#include <optional>

#include "train/layers/cudnn/layer.h"
#include "train/layers/cudnn/weights.h"

namespace rondo::training::cudnn {

namespace {

constexpr float kOne = 1, kZero = 0;

class LinearLayer : public Layer {
 public:
  explicit LinearLayer(const Blueprint& from)
      : site_(from.site),
        weight_(*from.node.weights[0]),
        bias_(*from.node.weights[1]),
        in_(from.in),
        inputs_(dim(from.in.shape.size())),
        outputs_(dim(from.node.out.channels)),
        samples_(dim(site_.binding().count)),
        uploaded_weight_(site_, weight_),
        uploaded_bias_(site_, bias_),
        described_(site_.description(from.node.out, site_.binding().count)),
        described_bias_(site_.description(from.node.out, 1)) {
    output_ = site_.tensor(from.node.out);
  }

  Tensor buildBack(const Tensor& gradient, bool wanted) override {
    gradient_ = gradient;
    made_weight_.emplace(site_, weight_);
    made_bias_.emplace(site_, bias_);
    if (wanted) back_ = site_.tensor(in_.shape);
    return back_;
  }

  void forward(const Batch&, const Pass&) override {
    uploaded_weight_.refresh();
    uploaded_bias_.refresh();
    multiply(CUBLAS_OP_T, CUBLAS_OP_N, {outputs_, samples_, inputs_},
             {uploaded_weight_.data(), inputs_}, {in_.data, inputs_}, {output_.data, outputs_});
    check(cudnnAddTensor(site_.dnn(), &kOne, described_bias_.get(), uploaded_bias_.data(), &kOne,
                         described_.get(), output_.data),
          "cudnnAddTensor");
  }

  void backward(const GradientReady&) override {
    multiply(CUBLAS_OP_N, CUBLAS_OP_T, {inputs_, outputs_, samples_}, {in_.data, inputs_},
             {gradient_.data, outputs_}, {made_weight_->data(), inputs_});
    made_weight_->depart();
    check(cudnnConvolutionBackwardBias(site_.dnn(), &kOne, described_.get(), gradient_.data, &kZero,
                                       described_bias_.get(), made_bias_->data()),
          "cudnnConvolutionBackwardBias");
    made_bias_->depart();
    if (!back_) return;
    uploaded_weight_.refresh();
    multiply(CUBLAS_OP_N, CUBLAS_OP_N, {inputs_, samples_, outputs_},
             {uploaded_weight_.data(), inputs_}, {gradient_.data, outputs_}, {back_.data, inputs_});
  }

 private:
  struct Sizes {
    int rows, columns, summed;
  };
  template <class Value>
  struct Matrix {
    Value* data;
    int rows; ///< rows of the column-major matrix
  };

  void multiply(cublasOperation_t left_as, cublasOperation_t right_as, const Sizes& sizes,
                const Matrix<const float>& left, const Matrix<const float>& right,
                const Matrix<float>& to) const {
    check(
        cublasSgemm(site_.blas(), left_as, right_as, sizes.rows, sizes.columns, sizes.summed, &kOne,
                    left.data, left.rows, right.data, right.rows, &kZero, to.data, to.rows),
        "cublasSgemm");
  }

  Site& site_;
  const Weight &weight_, &bias_;
  Tensor in_;
  int inputs_, outputs_, samples_;
  Upload uploaded_weight_, uploaded_bias_;
  Description described_, described_bias_;
  std::optional<Delivery> made_weight_, made_bias_;
  Tensor gradient_, back_;
};

} // namespace

std::unique_ptr<Layer> build(const Linear&, const Blueprint& from) {
  return std::make_unique<LinearLayer>(from);
}

} // namespace rondo::training::cudnn
