import { useRouter } from '@tanstack/react-router'
import { useEffect } from 'react'

/** Who goes to another screen by keyboard or screen reader begins there at its heading, unless a field has the focus: one of the screen that
 *  asked for it, or one that they have gone to meanwhile. */
export function useFocusOnArrival(): void {
  const router = useRouter()
  useEffect(
    () =>
      router.subscribe('onRendered', ({ pathChanged, fromLocation }) => {
        if (!pathChanged || fromLocation === undefined) return
        const content = document.getElementById('content')
        const active = document.activeElement
        if (content === null || active?.matches('input, textarea, select')) return
        const heading = content.querySelector<HTMLElement>('h1') ?? content
        heading.tabIndex = -1
        heading.focus({ preventScroll: true })
      }),
    [router],
  )
}
