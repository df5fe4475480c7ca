import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createConnection, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { giveSendRoom } from './send-room.ts'

/** One that was taken in by a server, and whose other end reads nothing. */
async function takenIn(place: { readonly path: string } | { readonly port: number; readonly host: string }): Promise<Socket> {
  const server = createServer()
  onTestFinished(() => void server.close())
  server.listen(place)
  await once(server, 'listening')
  const address = server.address()!
  const client = createConnection(typeof address === 'string' ? { path: address } : { port: address.port, host: '127.0.0.1' })
  onTestFinished(() => void client.destroy())
  const [taken] = (await once(server, 'connection')) as [Socket]
  onTestFinished(() => void taken.destroy())
  return taken
}

const onWindow = () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-room-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return takenIn({ path: join(folder, 'net.sock') })
}
/** More than the kernel takes of a connection's by itself, less than it gives on request with any settings of Linux's own. */
const much = Buffer.alloc(300_000)

test('a window takes more at once when it was given room', async () => {
  const [usual, roomy] = [await onWindow(), await onWindow()]
  giveSendRoom(roomy, 2 * 1024 * 1024)
  for (const socket of [usual, roomy]) socket.write(much)
  expect(usual.writableLength).toBe(much.length)
  expect(roomy.writableLength).toBe(0)
})

test('a connection that has ended, or is not one of a window, is left as it is', async () => {
  const gone = await onWindow()
  gone.destroy()
  const tcp = await takenIn({ port: 0, host: '127.0.0.1' })
  for (const socket of [gone, tcp]) expect(() => giveSendRoom(socket, 2 * 1024 * 1024)).not.toThrow()
  tcp.write('still works')
})
