import type { Target } from '@anchorhold/core/net/target'

/** Connections that were opened to one place, and what is spoken to it: plain HTTP, or HTTP over TLS that ends here. */
export type Within = WeakMap<object, { readonly target: Target; readonly secure: boolean }>
