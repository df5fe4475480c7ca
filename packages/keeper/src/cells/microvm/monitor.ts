import type { Duplex } from 'node:stream'
import { z } from 'zod'

/** QEMU's own control line, QMP: https://www.qemu.org/docs/master/interop/qmp-spec.html
 *  A guest that broke out of its devices could speak here, so what comes is bounded and parsed. */
export interface Monitor {
  execute(command: string, args?: Readonly<Record<string, unknown>>): Promise<unknown>
  /** Settles with the first event of this name that `fits`. */
  event(name: string, fits?: (data: unknown) => boolean): Promise<void>
}

const lineBytesMax = 256 * 1024

const Message = z.union([
  z.object({ QMP: z.unknown() }),
  z.object({ event: z.string(), data: z.unknown().optional() }),
  z.object({ error: z.object({ desc: z.string() }) }),
  z.object({ return: z.unknown() }),
])

/** Settles when QEMU has greeted and takes commands. */
export async function monitor(line: Duplex): Promise<Monitor> {
  const waiting: PromiseWithResolvers<unknown>[] = []
  const watching = new Set<{ readonly name: string; readonly fits: (data: unknown) => boolean; readonly seen: () => void }>()
  const greeted = Promise.withResolvers<void>()
  greeted.promise.catch(() => {}) // it may end after it has greeted
  let rest = ''
  const fail = (error: Error) => {
    line.destroy()
    greeted.reject(error)
    for (const each of waiting.splice(0)) each.reject(error)
  }
  line.setEncoding('utf8')
  line.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > lineBytesMax) return fail(new Error('QEMU said too much at once'))
    try {
      for (const each of lines) hear(Message.parse(JSON.parse(each)))
    } catch {
      fail(new Error('QEMU said something that is not understood'))
    }
  })
  line.on('error', () => fail(new Error('QEMU does not answer')))
  line.on('close', () => fail(new Error('QEMU has ended')))

  function hear(message: z.infer<typeof Message>): void {
    if ('QMP' in message) return greeted.resolve()
    if ('event' in message) {
      for (const each of watching) if (each.name === message.event && each.fits(message.data)) each.seen()
    } else if ('error' in message) waiting.shift()?.reject(new Error(`QEMU refused: ${message.error.desc.slice(0, 500)}`))
    else waiting.shift()?.resolve(message.return)
  }

  async function execute(command: string, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    if (line.destroyed) throw new Error('QEMU has ended')
    const answer = Promise.withResolvers<unknown>()
    answer.promise.catch(() => {}) // nobody may be left to hear it
    waiting.push(answer)
    line.write(`${JSON.stringify({ execute: command, arguments: args })}\n`)
    return answer.promise
  }

  await greeted.promise
  await execute('qmp_capabilities')
  return {
    execute,
    event: (name, fits = () => true) =>
      new Promise((resolve) => {
        const watch = {
          name,
          fits,
          seen() {
            watching.delete(watch)
            resolve()
          },
        }
        watching.add(watch)
      }),
  }
}
