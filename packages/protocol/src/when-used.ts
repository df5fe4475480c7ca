type Built<T extends Record<string, () => unknown>> = { readonly [K in keyof T]: ReturnType<T[K]> }

/** Things that are made one by one, each when it is first used: to build every schema and to prepare every statement that a program
 *  might ever need is a good part of its start. */
export function whenUsed<T extends Record<string, () => unknown>>(makers: T): Built<T> {
  const built = {}
  for (const [name, make] of Object.entries(makers))
    Object.defineProperty(built, name, {
      enumerable: true,
      configurable: true,
      get() {
        const value = make()
        Object.defineProperty(built, name, { enumerable: true, value })
        return value
      },
    })
  return built as Built<T>
}
