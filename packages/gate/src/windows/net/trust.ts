import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'

/** Whom the gate believes that they are who they say: those whom this machine trusts, and those whom the owner names beside them.
 *  Putting them together takes a while, so it is done once for all sessions, when the first of them needs it. */
export function trusts(): (extra: string | null) => SecureContext {
  const made = new Map<string, SecureContext>()
  return (extra) => {
    const found = made.get(extra ?? '')
    if (found !== undefined) return found
    const system = getCACertificates('system')
    const ca = [...(system.length > 0 ? system : getCACertificates('bundled')), ...(extra === null ? [] : [extra])]
    const context = createSecureContext({ ca })
    // The owner may change the file; what was in it before is of no more use.
    made.clear()
    made.set(extra ?? '', context)
    return context
  }
}
