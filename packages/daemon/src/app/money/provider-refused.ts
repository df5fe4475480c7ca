import type { ProviderRow } from '../../store/store.ts'
import type { Reads } from '../parts.ts'

const lookedAtMax = 50

/** Whether the last call by a provider's credential was turned away, and nobody has mended it since: given it another, or seen a
 *  test succeed. */
export function wasRefused({ store }: Reads, { name }: Pick<ProviderRow, 'name'>): boolean {
  const last = store.events.lastCalls(lookedAtMax).find(({ body }) => body.provider === name)
  if (last === undefined || (last.body.status !== 401 && last.body.status !== 403)) return false
  return !store.house
    .before(Number.MAX_SAFE_INTEGER, lookedAtMax)
    .some(
      ({ type, body, at }) =>
        at > last.at &&
        ((type === 'provider.changed' && body.provider === name && body.what === 'put') ||
          (type === 'provider.tested' && body.provider === name && body.verdict === 'ok')),
    )
}
