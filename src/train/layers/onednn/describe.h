// Makes the descriptions of primitives, with oneDNN 2 and with oneDNN 3. All differences between
// the two interfaces are in this file.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

namespace rondo::training::onednn {

/// Whether the backward pass of batch norm takes the shift, which it does not use.
inline constexpr bool kBackwardTakesShift = DNNL_VERSION_MAJOR < 3;

/// What describe() needs besides the primitive's own arguments.
struct Setting {
  const dnnl::engine& engine;
  dnnl::primitive_attr attributes;
  bool may_fail = false; ///< the result is empty if oneDNN has no such primitive
};

/// An argument that oneDNN 2 does not take: its primitives have one layout for input and output.
template <class Argument>
struct Since3 {
  const Argument& value;
};
template <class Argument>
Since3<Argument> since3(const Argument& value) {
  return {value};
}

#if DNNL_VERSION_MAJOR >= 3

template <class Argument>
const Argument& taken(const Argument& value) {
  return value;
}
template <class Argument>
const Argument& taken(const Since3<Argument>& wrapped) {
  return wrapped.value;
}

/// Describes a forward pass. `arguments` are those of oneDNN 3's primitive_desc between the engine
/// and the attributes.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const Setting& setting, const Arguments&... arguments) {
  return {setting.engine, taken(arguments)..., setting.attributes, setting.may_fail};
}

/// The same for the backward pass of `forward`.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describeBack(const Setting& setting, const Forward& forward,
                                                const Arguments&... arguments) {
  return {setting.engine, taken(arguments)..., forward, setting.attributes, setting.may_fail};
}

inline void appendRelu(dnnl::post_ops& after) {
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

inline dnnl::memory::dims dimsOf(const dnnl::memory::desc& layout) { return layout.get_dims(); }
inline dnnl::memory::data_type typeOf(const dnnl::memory::desc& layout) {
  return layout.get_data_type();
}

#else

template <class Argument>
std::tuple<const Argument&> taken(const Argument& value) {
  return {value};
}
template <class Argument>
std::tuple<> taken(const Since3<Argument>&) {
  return {};
}

/// The description of the operation, which oneDNN 3 no longer has.
template <class Primitive, class... Arguments>
typename Primitive::desc operation(const Arguments&... arguments) {
  return std::make_from_tuple<typename Primitive::desc>(std::tuple_cat(taken(arguments)...));
}

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const Setting& setting, const Arguments&... arguments) {
  return {operation<Primitive>(arguments...), setting.attributes, setting.engine, setting.may_fail};
}

template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describeBack(const Setting& setting, const Forward& forward,
                                                const Arguments&... arguments) {
  return {operation<Primitive>(arguments...), setting.attributes, setting.engine, forward,
          setting.may_fail};
}

inline void appendRelu(dnnl::post_ops& after) {
  after.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

inline dnnl::memory::dims dimsOf(const dnnl::memory::desc& layout) { return layout.dims(); }
inline dnnl::memory::data_type typeOf(const dnnl::memory::desc& layout) {
  return layout.data_type();
}

#endif

} // namespace rondo::training::onednn
