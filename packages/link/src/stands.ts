import type { Failure } from '@anchorhold/protocol/failures'
import { closeSync, writeFileSync } from 'node:fs'

/** Tells whoever started this process, at the same place, how what it holds ready is doing: null when that stands. Only before
 *  `sayReady`, which closes the descriptor. */
export function sayHeldReady(trouble: string | null): void {
  say(`${JSON.stringify({ trouble })}\n`)
}

/** Tells them why it will not stand, with what to do about it. */
export function sayWhyNot({ code, message, hint }: Pick<Failure, 'code' | 'message' | 'hint'>): void {
  say(`${JSON.stringify({ why: { code, message, hint } })}\n`)
}

/** Tells whoever started this process, at its third descriptor, that it stands. Nobody may be there any more: a process
 *  that was started goes on all the same. */
export function sayReady(): void {
  if (say('ready')) closeSync(3)
}

function say(words: string): boolean {
  try {
    writeFileSync(3, words)
    return true
  } catch (error) {
    // Of a process that was started by hand it may be anything.
    if (!['EPIPE', 'EBADF', 'EINVAL'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    return false
  }
}
