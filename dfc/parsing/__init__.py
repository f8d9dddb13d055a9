"""What the languages of programs and of deployment files share: tokens, the automaton, literals, limits of a text."""
