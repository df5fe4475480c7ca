import { chmod, rm } from 'node:fs/promises'
import type { Server } from 'node:net'

/** Opens a window at this path, in place of one that a gate before this left. Who may enter its folder may use it. */
export async function listenAt(server: Server, path: string): Promise<void> {
  await rm(path, { force: true })
  const { promise: listening, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen(path, resolve)
  await listening
  server.off('error', reject)
  await chmod(path, 0o666)
}
