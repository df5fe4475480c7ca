import type { BoundCredential } from '@anchorhold/protocol/credentials'
import { netPaths } from '../policy/meaning.ts'
import { compileGlob } from '../policy/patterns.ts'
import type { Target } from './target.ts'

/** What is in force for one session's calls, made ready to be compared. */
export type Credentials = {
  /** Whether one is bound to that host: its TLS must be opened then. */
  speaksOf(target: Target): boolean
  /** Whether any is for that host, whatever its port and whether its secret is stored. */
  isBound(host: string): boolean
  /** Those for whatever call to that host, of secrets that are stored. */
  ofHost(host: string): readonly BoundCredential[]
  /** Those that are for this very call. */
  boundTo(call: { readonly target: Target; readonly method: string; readonly path: string }): readonly BoundCredential[]
  /** Of a text that a cell sends, the placeholders in it. */
  placeholdersIn(text: string): readonly string[]
}

/** Whatever looks like one is one, also of a secret that is gone. */
const placeholderShape = /anchorhold-placeholder-[A-Za-z0-9_.-]*/g

export function credentialsOf(list: readonly BoundCredential[]): Credentials {
  const compiled = list.map((one) => ({
    one,
    methods: one.method === undefined ? null : one.method.map((method) => method.toUpperCase()),
    path: one.path === undefined ? null : compileGlob(one.path),
  }))
  const isAt = (one: BoundCredential, target: Target) => one.host === target.host && one.port === target.port
  return {
    speaksOf: (target) => list.some((one) => isAt(one, target)),
    isBound: (host) => list.some((one) => one.host === host),
    ofHost: (host) => list.filter((one) => one.host === host && one.box !== null),
    boundTo({ target, method, path }) {
      return compiled.flatMap(({ one, methods, path: glob }) => {
        if (!isAt(one, target)) return []
        if (methods !== null && !methods.includes(method.toUpperCase())) return []
        // However the server reads the path, it must be one that the credential is for.
        if (glob !== null && !netPaths({ path }).every((read) => glob.fits(read.path))) return []
        return [one]
      })
    },
    placeholdersIn(text) {
      const found = new Set([...text.matchAll(placeholderShape)].map(([shape]) => shape))
      for (const { placeholder } of list) if (text.includes(placeholder)) found.add(placeholder)
      // The longest that is known stands for all that it is the beginning of.
      return [...found].map((shape) => {
        const known = list.filter(({ placeholder }) => shape.startsWith(placeholder)).map(({ placeholder }) => placeholder)
        return known.toSorted((a, b) => b.length - a.length)[0] ?? shape
      })
    },
  }
}
