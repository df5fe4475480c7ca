import type { NewEvent } from '@anchorhold/protocol/events'
import type { Price } from '@anchorhold/protocol/gate-commands'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import type { SessionAuthority } from '../authority.ts'
import type { Account } from '../money/account.ts'
import type { ServedOn } from '../money/leases.ts'

/** One way through a cell's wall. Each kind decides by a session's terms whether the session needs it. */
export interface WindowKind {
  /** Throws where no session can be served on these terms, before anything is changed. */
  check?(terms: ServedOn): void
  open(parts: SessionParts): Promise<SessionWindow>
  /** The certificate of whom a cell on these terms has to trust; null where it need not trust anybody. */
  certificate?(session: SessionId, terms: ServedOn): Promise<string> | null
}

/** What a session's windows share. */
export type SessionParts = {
  readonly session: SessionId
  /** What the session is served on now. */
  readonly terms: () => ServedOn
  readonly account: Account
  readonly authority: SessionAuthority
  readonly note: (event: NewEvent) => void
  /** The turn is about to end: every window writes down what belongs to it. */
  readonly settling: () => void
}

/** One session's window. It may be there without a socket, as long as the terms ask for none. */
export interface SessionWindow {
  /** Whether it is found where it should be, and can go on on these terms. */
  stands(terms: ServedOn): Promise<boolean>
  /** Opens or closes its socket as the terms say now. */
  fit(): Promise<void>
  /** Something else holds from here on. */
  changed(what: 'terms' | 'rules' | 'money'): void
  /** There may be more money than before for what waits. */
  retry(): void
  /** What the ledger must hold for a call that waits here; null where none waits for that request. */
  price(request: RequestId): Price | null
  /** Writes down what has passed so far. */
  flush(): void
  /** Resolves when nothing is under way any more that must be booked. */
  quiet(): Promise<void>
  /** Ends all that is under way, and takes the socket away. */
  close(): Promise<void>
}
