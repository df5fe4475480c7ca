/** A piece of an answer, in the order of the stream. */
export type Piece =
  | { readonly at: 'text'; readonly text: string }
  | { readonly at: 'wait'; readonly ms: number }
  /** The connection breaks off. */
  | { readonly at: 'cut' }

export type Answer = {
  readonly status: number
  readonly contentType: string
  /** Invariant: holds nothing of the request. An answer may take an hour, and a request may be large. */
  readonly pieces: Iterable<Piece>
}

/** A shape in which agents speak to a model. Each has a folder of its own, and is named in `server.ts`. */
export type Dialect = {
  /** Whether it answers calls to this path. */
  serves(path: string): boolean
  /** Invariant: takes time in proportion to the size of the body. All other sessions wait meanwhile. */
  answer(path: string, body: Buffer): Answer
  /** What an agent is told that gets no answer. */
  refusal(status: number, message: string): Answer
}
