import type { IncomingHttpHeaders } from 'node:http'
import type { DeniedTools } from '@anchorhold/core/policy/denied-tools'
import type { Used } from '@anchorhold/core/prices'
import type { Nanos } from '@anchorhold/protocol/money'
import type { Outgoing } from '../../providers/connections.ts'
import type { ProviderKey } from '../../providers/providers.ts'

/** The shape in which an agent speaks to a model. Money, rates, policy, people and secrets know a call by this interface alone.
 *  Invariant: what goes out is written anew from what was screened, and nothing that was not screened goes out. */
export interface Dialect {
  readonly name: string
  /** What its API is called. */
  readonly speaks: string
  /** Its endpoints, in words. */
  readonly serves: string
  /** What a POST to the window asks for; null where the dialect has no such endpoint. Only exact paths count: nothing is decoded or resolved. */
  endpoint(pathname: string, query: string): Endpoint | null
  /** Decides whether a request from inside may go out, and takes it apart. */
  screen(raw: Uint8Array, endpoint: Endpoint, on: ScreenedOn): Screening
  /** A part of a request as it is remembered once it was measured: without what agents change from call to call. */
  remembered(json: string): string
  /** The request as it is sent, with the length of the answer that was paid for; null where it costs nothing. */
  outgoing(call: OutgoingCall, maxTokens: number | null): Outgoing
  /** Which sub-agent calls, as the agent's own program says. Code in a cell can say anything here, or nothing: whatever a sub-agent may
   *  spend, the session may not spend more. */
  agentOf(headers: IncomingHttpHeaders): string | undefined
  /** Reads along with an answer that came with a good status. */
  meter(kind: 'stream' | 'whole'): Meter
  /** Whether a header of the upstream's goes on to the agent, beside those of every answer. */
  passes(header: string): boolean
  /** A refusal or an error of the window's own, as an agent of this dialect shows it to its user. */
  error(what: Answer): { readonly status: number; readonly json: string }
  /** One call for one token. */
  probe(model: string, key: ProviderKey | null): Outgoing
  /** What came back for it, with a reason in the upstream's words. */
  readProbe(json: string): { readonly kind: 'answer' | 'error' | 'unknown'; readonly error: string | null }
}

export type Endpoint = {
  /** Where it is asked upstream. */
  readonly path: string
  /** Whether a call may cost something: what is reserved, rated and judged. */
  readonly costs: boolean
}

export type ScreenedOn = {
  /** What the owner allows beyond what agents need. */
  readonly allow: ReadonlySet<string>
  readonly denied: DeniedTools | null
}
export type Screening = { readonly ok: true; readonly request: Screened } | { readonly ok: false; readonly answer: Answer }

/** A request that may be sent, taken apart so that the length of its answer can still be set. */
export type Screened = {
  readonly model: string
  readonly stream: boolean
  readonly maxTokens: number
  readonly thinkingTokens: number
  /** It asks for thinking, of which little or nothing may be shown. */
  readonly thinks: boolean
  readonly caching: 'none' | '5m' | '1h'
  /** Everything but its messages and the length of the answer, as JSON. */
  readonly head: string
  /** Each message as JSON, with what its images and documents weigh. */
  readonly messages: readonly (Media & { readonly json: string })[]
}

/** What is not weighed by its bytes, and how many characters of JSON that takes. */
export type Media = { readonly mediaChars: number; readonly imageTokens: number; readonly documents: number }

export type OutgoingCall = {
  readonly request: Screened
  readonly endpoint: Endpoint
  /** What came from inside says how to read the request, and no more. */
  readonly from: IncomingHttpHeaders
  readonly allow: ReadonlySet<string>
  readonly key: ProviderKey | null
}

/** Reads along with an answer as it passes, and says what it used. It reads a little later, so that the answer goes out first. */
export type Meter = {
  feed(chunk: Uint8Array): void
  /** What was used, as far as it was seen. `whole` when the upstream gave its final count; `thought` when there was thinking in it,
   *  of which an answer shows a summary or nothing, whatever its length. */
  read(): {
    readonly used: Used
    readonly whole: boolean
    readonly started: boolean
    readonly thought: boolean
    /** What it cost, where the upstream says so itself. */
    readonly saidNanos: Nanos | null
  }
}

/** A refusal or an error of the window's own. Money, credentials and rules are `refused`: an agent must show that at once, and not try again. It
 *  may try again after `unreachable` and `overloaded`. */
export type Answer = {
  readonly kind: 'refused' | 'malformed' | 'unknown_path' | 'too_large' | 'unreachable' | 'overloaded' | 'failed'
  readonly message: string
}
