import type { Books } from '../../money/books.ts'
import type { ServedOn } from '../../money/leases.ts'
import type { RateLimits } from '../../money/rates.ts'
import { type ProviderParts, upstream } from '../../providers/providers.ts'
import type { CallLine } from '../call-line.ts'
import type { WindowKind } from '../window.ts'
import type { Terms } from './calls.ts'
import { dialectOf } from './dialects.ts'
import { modelWindow } from './window.ts'

/** What all model windows of a gate share. */
export type ModelParts = {
  readonly books: Books
  readonly providers: ProviderParts
  readonly rates: RateLimits
  readonly now: () => number
  readonly log: (line: CallLine) => void
  /** How long a call waits for somebody to pay for it. */
  readonly heldMs: number
  /** Without a daemon: no command reaches a budget. */
  readonly alone: boolean
  /** Somebody waits for what has just reached the disk. */
  readonly tell: () => void
}

/** Every session has one. */
export function modelWindows(parts: ModelParts): WindowKind {
  const { providers, tell: settled, ...shared } = parts
  const termsOf = ({ provider, rules, spend }: ServedOn): Terms => ({
    upstream: upstream(provider, providers),
    allow: new Set(rules.allow),
    spend,
    rates: rules.rates,
  })
  return {
    check(terms) {
      termsOf(terms)
      dialectOf(terms.dialect)
    },
    async open({ session, terms, account, authority, settling }) {
      const { dialect: name, folder, paused } = terms()
      const dialect = dialectOf(name)
      const own = { session, dialect, folder, terms: termsOf(terms()), account, authority, paused, settling, settled }
      const window = await modelWindow({ ...shared, ...own })
      return {
        stands: async (next) => next.dialect === name && (await window.stands()),
        fit: async () => {},
        changed(what) {
          if (what === 'rules') return
          window.update(what === 'terms' ? termsOf(terms()) : undefined)
          if (what === 'money') return
          if (terms().paused) window.pause()
          else window.resume()
        },
        retry: window.retry,
        price: window.price,
        flush() {},
        quiet: window.quiet,
        close: window.close,
      }
    },
  }
}
