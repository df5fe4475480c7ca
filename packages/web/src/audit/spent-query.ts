import type { Spending } from '@anchorhold/protocol/api/money'
import type { SessionId } from '@anchorhold/protocol/ids'
import { queryOptions } from '@tanstack/react-query'
import { daemon } from '../daemon.ts'

type Sum = { readonly calls: number; readonly micros: number; readonly sentTokens: number }

/** What was spent since then, in whole days (UTC): that is how the ledger counts. */
export const spentQuery = (session: SessionId | null, since: number) =>
  queryOptions({
    queryKey: ['spent', session, since],
    async queryFn() {
      const day = since === 0 ? {} : { since: new Date(since).toISOString().slice(0, 10) }
      const { spending } = await daemon.spending({ query: { by: 'day', ...day, ...(session === null ? {} : { session }) } })
      return { real: sumOf(spending, false), play: sumOf(spending, true) }
    },
    staleTime: 0,
  })

const sumOf = (spending: readonly Spending[], simulated: boolean): Sum =>
  spending
    .filter((one) => one.simulated === simulated)
    .reduce(
      ({ calls, micros, sentTokens }, { calls: more, cost_micros: cost, tokens: { input, cache_read, cache_write } }) => ({
        calls: calls + more,
        micros: micros + cost,
        sentTokens: sentTokens + input + cache_read + cache_write,
      }),
      { calls: 0, micros: 0, sentTokens: 0 },
    )
