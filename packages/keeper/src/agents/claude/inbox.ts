/** What is pushed here comes out of the stream, in order, until `end`. */
export function inbox<T>(): { readonly stream: AsyncIterable<T>; push(item: T): void; end(): void } {
  const items: T[] = []
  let wake: (() => void) | null = null
  let ended = false
  const change = () => {
    wake?.()
    wake = null
  }
  async function* stream(): AsyncGenerator<T> {
    for (;;) {
      while (items.length > 0) yield items.shift()!
      if (ended) return
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return {
    stream: stream(),
    push(item) {
      items.push(item)
      change()
    },
    end() {
      ended = true
      change()
    },
  }
}
