import { join } from 'node:path'
import { routesBy } from '@anchorhold/core/net/routes'
import type { NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { SessionAuthority } from '../../authority.ts'
import type { ServedOn } from '../../money/leases.ts'
import { readOrMakeKey } from '../../keys/secrets.ts'
import type { Stands } from '../listen.ts'
import type { CallLine } from '../model/window.ts'
import { fillBy } from './credentials.ts'
import { crowd, crowdMax } from './crowd.ts'
import { type DialParts, dialler } from './dial.ts'
import { screenForge } from './forge-calls.ts'
import { mirrored } from './mirrors.ts'
import { looked } from './push.ts'
import { sessionCa } from './session-ca.ts'
import { trusts } from './trust.ts'
import { type NetWindow, netWindow } from './window.ts'

/** Where a session's net window is, while its terms say that it has one. */
export type NetOpening = Pick<NetWindow, 'flush' | 'look' | 'close'> & {
  /** Opens or closes the window as the terms say now. One after the other: what is told twice at once opens one window. */
  fit(): Promise<void>
  /** Also where there is no window to stand. */
  readonly stands: Stands
}

export type OpeningsParts = {
  /** The gate's own, with the key that authorities follow from. */
  readonly folder: string
  readonly dial: DialParts | undefined
  readonly openSecret: (box: string) => string
  /** Without a daemon: nobody is there to be asked. */
  readonly alone: boolean
  readonly log: (line: CallLine) => void
  readonly now: () => number
}

export type OfSession = {
  readonly authority: Pick<SessionAuthority, 'judge' | 'askAhead' | 'stands' | 'denies' | 'policy'>
  readonly note: (event: NewEvent) => void
  /** What the session is served on now. */
  readonly terms: () => ServedOn
}

/** What all net windows of a gate share: how they dial, whom they trust, and how many connections there may be. */
export type NetOpenings = {
  of(session: SessionId, of: OfSession): NetOpening
  /** Of the authority that a cell of this session is to trust, which is about to be made. */
  certificate(session: SessionId): Promise<string>
}

export async function netOpenings(parts: OpeningsParts): Promise<NetOpenings> {
  const seed = await readOrMakeKey(join(parts.folder, 'net-key'))
  const trust = trusts()
  const dialling = dialler(parts.dial)
  const all = crowd(crowdMax())

  const authorityOf = (session: SessionId) => sessionCa(seed, session, parts.now)

  function of(session: SessionId, { authority, note, terms }: OfSession): NetOpening {
    let open: NetWindow | null = null
    let fitting = Promise.resolve()

    const routeOf = looked(
      routesBy(() => authority.policy.rules),
      () => terms().net.forges,
    )

    async function fit(): Promise<void> {
      const { folder, network } = terms()
      if ((network === 'proxy_only') === (open !== null)) return
      if (open !== null) return close()
      open = await netWindow({
        session,
        folder,
        alone: parts.alone,
        judge: authority.judge,
        askAhead: authority.askAhead,
        stands: authority.stands,
        denies: authority.denies,
        routeOf,
        screen: (asked, request) => screenForge(asked, request, terms().net),
        slowness: () => terms().net.slowness,
        crowd: all,
        dialler: mirrored(dialling, () => terms().net.mirrors),
        authority: authorityOf(session),
        credentials: fillBy(
          () => terms().net,
          parts.openSecret,
          (target) => routeOf(target).onlyOurs,
        ),
        trust: () => trust(terms().net.ca),
        note,
        log: parts.log,
        now: parts.now,
      })
    }
    async function close(): Promise<void> {
      const closed = open
      open = null
      await closed?.close()
    }

    return {
      fit() {
        const fitted = fitting.then(fit)
        fitting = fitted.catch(() => {})
        return fitted
      },
      stands: async () => open === null || open.stands(),
      flush: () => open?.flush(),
      look: () => open?.look(),
      close,
    }
  }

  return { of, certificate: (session) => authorityOf(session).certificate() }
}
