/** Lets in, in the order in which they came, as many as there is room for; the others wait. */
export type Lane = <T>(size: number, work: () => Promise<T>) => Promise<T>

/** Invariant: what is inside is never larger than the room together, and whoever is inside leaves however the work ends. */
export function lane(room: number): Lane {
  let free = room
  const waiting: { readonly size: number; readonly enter: () => void }[] = []
  const letIn = () => {
    while (waiting.length > 0 && waiting[0]!.size <= free) {
      const next = waiting.shift()!
      free -= next.size
      next.enter()
    }
  }
  return async (size, work) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    waiting.push({ size: Math.min(size, room), enter: resolve })
    letIn()
    await promise
    try {
      return await work()
    } finally {
      free += Math.min(size, room)
      letIn()
    }
  }
}
