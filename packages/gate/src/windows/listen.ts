import { chmod, lstat, rm } from 'node:fs/promises'
import type { Server } from 'node:net'

/** Whether a window is still what is found at its path: its folder may have been taken away and made anew. */
export type Stands = () => Promise<boolean>

/** Opens a window at this path, in place of one that a gate before this left. Who may enter its folder may use it. Its socket goes from
 *  there when the server is told to close, and nothing else is to be done about it then: the daemon may be making the folder anew. */
export async function listenAt(server: Server, path: string): Promise<Stands> {
  await rm(path, { force: true })
  const { promise: listening, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen(path, resolve)
  await listening
  server.off('error', reject)
  await chmod(path, 0o666)
  const { dev, ino } = await lstat(path)
  return async () => {
    const now = await lstat(path).catch(() => null)
    return now?.dev === dev && now.ino === ino
  }
}
