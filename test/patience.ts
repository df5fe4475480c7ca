import { vi } from 'vitest'

/** How long a test waits for what will be so. The library gives it a second, and on a busy machine a process alone may take that to start;
 *  who waits for what never comes waits this long once. */
const patienceMs = 20_000

const { waitFor } = vi
vi.waitFor = (callback, options) => waitFor(callback, typeof options === 'number' ? options : { timeout: patienceMs, ...options })
