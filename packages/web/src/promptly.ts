import type { Client } from '@anchorhold/protocol/client'

/** What the daemon answers at once, from what it has. Everything else may wait for a cell, for a program or for a large body. */
const answeredAtOnce = [
  'events',
  'sessionEvents',
  'getSession',
  'listSessions',
  'listRequests',
  'usage',
  'status',
  'whoAmI',
  'prompt',
  'watching',
  'warm',
] as const satisfies readonly (keyof Client)[]

/** Longer than the slowest network that is of use takes for a page of events. */
const patienceMs = 15_000

/** Calls as they are, but one that should be answered at once and is not is given up: on a connection that is dead and does not say so
 *  it would wait for ever, and with it all that waits for it. */
export function promptly(calls: Client, timeout: (ms: number) => AbortSignal = (ms) => AbortSignal.timeout(ms)): Client {
  const limited = answeredAtOnce.map((name) => {
    const call = calls[name] as (input: unknown, signal: AbortSignal) => Promise<unknown>
    return [
      name,
      (input: unknown, signal?: AbortSignal) =>
        call(input, AbortSignal.any([timeout(patienceMs), ...(signal === undefined ? [] : [signal])])),
    ]
  })
  return { ...calls, ...(Object.fromEntries(limited) as Partial<Client>) }
}
