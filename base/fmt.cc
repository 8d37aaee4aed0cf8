// SPDX-License-Identifier: Apache-2.0
// The only translation unit that compiles fmt's code. Header-only use costs every other one 6
// seconds of compile time, and a shared libfmt would be one more dependency of the drop-in library.
// These are the parts of fmt 9; with another version all is header-only (cmake/RondoNeeds.cmake).
#include <fmt/format-inl.h>

#ifndef FMT_HEADER_ONLY
FMT_BEGIN_NAMESPACE
template FMT_API detail::locale_ref::locale_ref(const std::locale& loc);
template FMT_API auto detail::locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto detail::dragonbox::to_decimal(float value) noexcept
    -> dragonbox::decimal_fp<float>;
template FMT_API auto detail::dragonbox::to_decimal(double value) noexcept
    -> dragonbox::decimal_fp<double>;
template FMT_API auto detail::thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto detail::decimal_point_impl(locale_ref) -> char;
template FMT_API void detail::buffer<char>::append(const char*, const char*);
template FMT_API void detail::vformat_to(buffer<char>&, string_view,
                                         basic_format_args<format_context>, locale_ref);
FMT_END_NAMESPACE
#endif
