/** Every expected failure: what a caller can act on. All else is a bug and is shown as `internal` with an id. */
export const failureCodes = {
  bad_request: { status: 400, meaning: 'The request is malformed' },
  unauthenticated: { status: 401, meaning: 'No valid token or cookie came with the request' },
  forbidden: { status: 403, meaning: 'Who asks may not do this' },
  proof_needed: { status: 403, meaning: 'Who asks must show again who they are: a passkey, or the password' },
  foreign_host: { status: 403, meaning: 'The Host header does not name this daemon' },
  foreign_origin: { status: 403, meaning: 'The request comes from another site' },
  not_found: { status: 404, meaning: 'There is nothing under this id or path' },
  wrong_method: { status: 405, meaning: 'There is something under this path, but not by this method' },
  wrong_state: { status: 409, meaning: 'The session is in a state that does not allow this' },
  panicked: { status: 423, meaning: 'Somebody has stopped every agent, and that is not lifted yet' },
  conflict: { status: 409, meaning: 'This was already done differently' },
  too_large: { status: 413, meaning: 'The request is larger than the limit' },
  too_many: { status: 429, meaning: 'Too many tries; wait before the next one' },
  workspace_refused: { status: 422, meaning: 'The folder cannot be given to a cell' },
  provider_unavailable: { status: 422, meaning: 'The model provider is not set up or its credential is missing' },
  cell_unavailable: { status: 503, meaning: 'This machine cannot start such a cell' },
  keeper_unavailable: { status: 503, meaning: 'The process that tends the session could not be started' },
  gate_unavailable: { status: 503, meaning: 'The process that serves the windows could not be started' },
  storage_unavailable: { status: 507, meaning: 'The database cannot be written; nothing was changed' },
  internal: { status: 500, meaning: 'A bug; the log has the rest under the id given' },
} as const satisfies Record<string, { status: number; meaning: string }>

export type FailureCode = keyof typeof failureCodes

/** An expected failure. The message says what could not be done and why; the hint says what to do about it. */
export class Failure extends Error {
  readonly code: FailureCode
  readonly hint: string | undefined
  /** After this long it may be tried again. */
  readonly retryMs: number | undefined
  constructor(
    code: FailureCode,
    message: string,
    options: { readonly hint?: string; readonly cause?: unknown; readonly retryMs?: number } = {},
  ) {
    super(message, { cause: options.cause })
    this.name = 'Failure'
    this.code = code
    this.hint = options.hint
    this.retryMs = options.retryMs
  }
}

/** Also one of another bundle's: each has a class of its own. */
export const isFailure = (error: unknown): error is Failure =>
  error instanceof Failure ||
  (error instanceof Error && error.name === 'Failure' && 'code' in error && String(error.code) in failureCodes)
