import { join } from 'node:path'
import { routesBy } from '@anchorhold/core/net/routes'
import type { SessionId } from '@anchorhold/protocol/ids'
import { readOrMakeKey } from '../../keys/secrets.ts'
import type { CallLine } from '../call-line.ts'
import type { SessionParts, SessionWindow, WindowKind } from '../window.ts'
import { fillBy } from './credentials.ts'
import { crowd, crowdMax } from './crowd.ts'
import { type DialParts, dialler } from './dial.ts'
import { screenForge } from './forge-calls.ts'
import { mirrored } from './mirrors.ts'
import { looked } from './push.ts'
import { sessionCa } from './session-ca.ts'
import { trusts } from './trust.ts'
import { type NetWindow, netWindow } from './window.ts'

/** What all net windows of a gate share: how they dial, whom they trust, and how many connections there may be. */
export type NetParts = {
  /** The gate's own, with the key that authorities follow from. */
  readonly folder: string
  readonly dial: DialParts | undefined
  readonly openSecret: (box: string) => string
  /** Without a daemon: nobody is there to be asked. */
  readonly alone: boolean
  readonly log: (line: CallLine) => void
  readonly now: () => number
}

/** A session has one while its terms say `proxy_only`. */
export async function netWindows(parts: NetParts): Promise<WindowKind> {
  const seed = await readOrMakeKey(join(parts.folder, 'net-key'))
  const trust = trusts()
  const dialling = dialler(parts.dial)
  const all = crowd(crowdMax())

  const caOf = (session: SessionId) => sessionCa(seed, session, parts.now)

  async function openFor({ session, authority, note, terms }: SessionParts): Promise<SessionWindow> {
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
        ca: caOf(session),
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
      changed: (what) => void (what !== 'money' && open?.look()),
      retry() {},
      price: () => null,
      flush: () => open?.flush(),
      quiet: async () => {},
      close,
    }
  }

  return {
    open: openFor,
    certificate: (session, { network }) => (network === 'proxy_only' ? caOf(session).certificate() : null),
  }
}
