import { client, openStream } from '@anchorhold/protocol/client'
import { isFailure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { proofDesk, withProof } from './login/proof.ts'
import { promptly } from './promptly.ts'

const options = { url: '' }

/** Where a call waits when whoever sits here must first show who they are. */
export const proof = proofDesk()

const reasonOf = (error: unknown): string | null => (isFailure(error) && error.code === 'proof_needed' ? error.message : null)

/** The daemon that served this page. */
export const daemon = withProof(promptly(client(options)), proof, reasonOf)

/** Everything that happens in the house after a position, as it happens. */
export const openEvents = (after: number, signal: AbortSignal) => openStream(options, 'events', { query: { after } }, signal)

const parting = client({ ...options, fetch: (url, init) => fetch(url, { ...init, keepalive: true }) })

/** Says that a session is no longer in front of somebody, also while the page itself goes away. */
export const leave = (id: SessionId): void => void parting.notWatching({ params: { id } }).catch(() => {})

export const isLoggedOut = (error: unknown): boolean => isFailure(error) && error.code === 'unauthenticated'

/** What is known here is of a log that the daemon has no longer. */
export const isOfAnotherLog = (error: unknown): boolean => isFailure(error) && error.code === 'conflict'

/** Whether it was not the daemon that answered, or nobody, so that asking again may help. */
export const isUnreachable = (error: unknown): boolean => !isFailure(error)

/** What a person is told of an error. */
export function wordsOf(error: unknown): string {
  if (isFailure(error)) return error.hint === undefined ? error.message : `${error.message}. ${error.hint}`
  return 'The daemon does not answer: it is not running, or this device is offline'
}

const loginHash = /^#login=([\w-]{1,200})$/

/** The secret of a login link, which its page is opened with. It is gone from the address before anything else happens. */
export function takeLoginSecret(): string | null {
  const found = loginHash.exec(location.hash)
  if (found === null) return null
  history.replaceState(history.state, '', location.pathname + location.search)
  return found[1]!
}

/** The same from whatever somebody pastes: the whole link or its secret alone. */
export const secretIn = (text: string): string | null => /(?:#login=|^)(anchor_[\w-]{20,190})$/.exec(text.trim())?.[1] ?? null

/** A link that is put into the address of an open page changes only what stands after the #: the page is opened with it anew, so
 *  that nothing is left of whoever was logged in before. */
export function heedLoginLinks(): void {
  addEventListener('hashchange', () => {
    if (loginHash.test(location.hash)) location.reload()
  })
}
