import type { CellProcess } from './cell.ts'

/** What a process in a cell says on its standard output, and its exit code. It is ended, and this rejects, when it says more than that or
 *  takes longer: a cell may be anybody's, and a process in it that was killed may go on saying nothing. Its standard error is dropped. */
export async function outputOf(
  process: CellProcess,
  { bytesMax, withinMs }: { readonly bytesMax: number; readonly withinMs: number },
): Promise<{ readonly text: string; readonly code: number }> {
  process.stderr.resume()
  // A process that has ended does not read what is still written to it; its exit says so.
  process.stdin.on('error', () => {})
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`It took longer than ${withinMs / 1000} s`)), withinMs)
  try {
    return await Promise.race([saidBy(process, bytesMax), late.promise])
  } catch (error) {
    process.kill('SIGKILL')
    process.stdout.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

async function saidBy(process: CellProcess, bytesMax: number) {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdout as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bytesMax) throw new TooMuchSaid()
    chunks.push(chunk)
  }
  return { text: Buffer.concat(chunks).toString('utf8'), code: await process.exited }
}

export class TooMuchSaid extends Error {
  constructor() {
    super('It says more than it can have to say')
  }
}
