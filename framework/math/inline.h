#pragma once

/// Kernel bodies are inlined into one function per instruction set, which determines their vector width.
#define DIPTYCH_INLINE [[gnu::always_inline]] inline
