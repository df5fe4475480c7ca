import { createServer } from 'node:net'
import { join } from 'node:path'
import { listenAt } from '../listen.ts'
import type { WindowKind } from '../window.ts'

/** A third kind of window, for tests: a socket that says the session's id to whoever connects, while the session may reach the network. It
 *  shows that another window is a folder, and a line in the table. */
export function scriptedWindows(happened: string[]): WindowKind {
  return {
    check({ folder }) {
      if (folder.includes('forbidden')) throw new Error('Not there')
    },
    certificate: () => Promise.resolve('whom to trust'),
    async open({ session, terms }) {
      const server = createServer((client) => client.end(session))
      let stands: (() => Promise<boolean>) | null = null
      const close = async () => {
        if (stands === null) return
        stands = null
        await new Promise((done) => server.close(done))
      }
      return {
        stands: async () => stands === null || stands(),
        async fit() {
          happened.push('fit')
          const { network, folder } = terms()
          if (network !== 'proxy_only') return close()
          stands ??= await listenAt(server, join(folder, 'third.sock'))
        },
        changed: (what) => void happened.push(what),
        retry: () => void happened.push('retry'),
        price: () => null,
        flush: () => void happened.push('flush'),
        quiet: async () => {},
        async close() {
          happened.push('close')
          await close()
        },
      }
    },
  }
}
