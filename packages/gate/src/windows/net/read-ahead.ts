import type { IncomingMessage } from 'node:http'
import { gathered } from '../gathered.ts'
import { setImmediate as immediate } from 'node:timers/promises'

const readMs = 30_000

/** Reads as much of a request's body as it takes to tell what it is, and puts it back.
 *  Invariant: what was read is what goes on: it is put back in front of the rest.
 *  @param tell gives null for as long as more is needed, and must not when there is no more
 *  @param ended what it is when it ends too early or does not come */
export async function readAhead<T extends object | string>(
  request: IncomingMessage,
  tell: (taken: Buffer, isAll: boolean) => T | null,
  { cut: ifCut, late: ifLate, slowness }: { readonly cut: T; readonly late: T; readonly slowness: number },
): Promise<T> {
  const { promise, resolve } = Promise.withResolvers<T>()
  const taken = gathered()
  let next = 0
  const look = () => {
    for (let chunk: Buffer | null; (chunk = request.read() as Buffer | null) !== null;) taken.add(chunk)
    // Not at every byte: what comes in small pieces must not be read from its beginning for each of them.
    if (taken.length < next && !request.complete) return
    next = 2 * taken.length
    const told = tell(taken.see(), request.complete)
    if (told === null) return
    // In this very step: an end that has been told could not be taken back. And not heard of again: what is put back is news, too.
    request.off('readable', look)
    request.unshift(taken.take())
    resolve(told)
  }
  const cut = () => resolve(ifCut)
  const timer = setTimeout(() => resolve(ifLate), readMs * slowness)
  request.on('readable', look).once('end', cut).once('close', cut)
  try {
    return await promise
  } finally {
    clearTimeout(timer)
    request.off('readable', look).off('end', cut).off('close', cut)
    // A stream learns in the next step only that nobody waits for it to be readable, and does not flow before.
    await immediate()
  }
}
