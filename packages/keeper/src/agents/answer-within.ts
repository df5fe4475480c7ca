import type { Clock } from '@anchorhold/link/clock'
import { Failure } from '@anchorhold/protocol/failures'

/** An agent need not answer at all: it is not waited for longer than this. */
export async function answerWithin<T>(clock: Clock, ms: number, answer: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const inTime = clock.after(ms, () => late.reject(new Failure('keeper_unavailable', 'The agent does not answer')))
  return Promise.race([answer, late.promise]).finally(inTime)
}
