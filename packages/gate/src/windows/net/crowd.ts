import { readFileSync } from 'node:fs'

/** All connections of all net windows, of cells and to the places that they reach.
 *  Invariant: however many cells take all that they can get, the gate has descriptors left for its model windows, its records and its link. */
export type Crowd = {
  /** Lets one more in, until it is told that it has left; null when there is no room. */
  enter(): (() => void) | null
}

export function crowd(max: number): Crowd {
  let inside = 0
  return {
    enter() {
      if (inside >= max) return null
      inside++
      let isIn = true
      return () => {
        if (isIn) inside--
        isIn = false
      }
    },
  }
}

/** What is assumed where the system does not tell. */
const openFilesUsual = 1024

/** Half of what this process may open: the other half is for everything else. */
export function crowdMax(limits: () => string = () => readFileSync('/proc/self/limits', 'utf8')): number {
  let text = ''
  try {
    text = limits()
  } catch {
    // Not on this system.
  }
  const soft = /^Max open files\s+(\d+)/m.exec(text)?.[1]
  return Math.floor((soft === undefined ? openFilesUsual : Number(soft)) / 2)
}
