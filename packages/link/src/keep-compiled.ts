import { flushCompileCache } from 'node:module'

/** By the first, what a start needs is compiled; by the second, what the first callers need. */
const keepMs = [1000, 10_000]

/** Node keeps what it has compiled as the process ends; of one that is killed nothing would be kept. */
export function keepCompiledSoon(): void {
  for (const ms of keepMs) setTimeout(() => flushCompileCache(), ms).unref()
}
