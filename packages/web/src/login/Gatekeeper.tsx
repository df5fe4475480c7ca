import { lazy, type ReactNode, Suspense, useEffect, useState, useSyncExternalStore } from 'react'
import { daemon, proof, wordsOf } from '../daemon.ts'
import { useConnection, useHouse } from '../live/house.ts'
import { Mark } from '../shell/Mark.tsx'

const Login = lazy(async () => ({ default: (await import('./Login.tsx')).Login }))
const ProofDialog = lazy(async () => ({ default: (await import('./ProofDialog.tsx')).ProofDialog }))

/** Lets in who is logged in. A login link carries its secret in the address; everybody else is shown the ways in. */
export function Gatekeeper({ secret, children }: { readonly secret: string | null; readonly children: ReactNode }) {
  const { goLive } = useHouse()
  const connection = useConnection()
  const [trouble, setTrouble] = useState<string | null>(null)
  const [entering, setEntering] = useState(secret !== null)
  const asked = useSyncExternalStore(proof.subscribe, proof.asked)

  const enter = async (with_: string) => {
    try {
      await daemon.login({ body: { secret: with_ } })
    } catch (error) {
      setTrouble(wordsOf(error))
    }
    setEntering(false)
    // A link that was used already does no harm to who is logged in.
    goLive()
  }
  useEffect(() => {
    if (secret === null) goLive()
    else void enter(secret)
    // Once, with what the page was opened with.
  }, [])

  if (entering) return <Quiet>Logging in…</Quiet>
  if (connection === 'logged_out')
    return (
      <Suspense fallback={<Quiet>Anchorhold</Quiet>}>
        <Login trouble={trouble} onEntered={goLive} />
      </Suspense>
    )
  return (
    <>
      {children}
      {asked !== null && (
        <Suspense>
          <ProofDialog why={asked} onClose={(proved) => proof.settle(proved)} />
        </Suspense>
      )}
    </>
  )
}

function Quiet({ children }: { readonly children: ReactNode }) {
  return (
    <main className="grid h-full place-content-center justify-items-center gap-4 text-soft">
      <Mark size={56} />
      <p role="status">{children}</p>
    </main>
  )
}
