//! How a cell is written: its colours and marks.

/// The sequence that makes a terminal write like this.
pub(super) fn style_of(cell: &vt100::Cell) -> String {
    let mut style = String::from("\x1b[");
    let mut parts: Vec<String> = vec![String::from("0")];
    // What was erased has a background, and nothing else.
    if cell.has_contents() {
        let marks = [(cell.bold(), "1"), (cell.dim(), "2"), (cell.italic(), "3"), (cell.underline(), "4")];
        let marks = marks.into_iter().chain([(cell.inverse(), "7")]);
        parts.extend(marks.filter(|(is_set, _)| *is_set).map(|(_, mark)| mark.to_owned()));
        parts.extend(colour(cell.fgcolor(), 38));
    }
    parts.extend(colour(cell.bgcolor(), 48));
    if parts.len() > 1 {
        style.push_str(&parts.join(";"));
    }
    style.push('m');
    style
}

fn colour(colour: vt100::Color, place: u8) -> Option<String> {
    match colour {
        vt100::Color::Default => None,
        // The first eight by their own names: a terminal may show them otherwise.
        vt100::Color::Idx(index @ 0..8) => Some((place - 8 + index).to_string()),
        vt100::Color::Idx(index) => Some(format!("{place};5;{index}")),
        vt100::Color::Rgb(red, green, blue) => Some(format!("{place};2;{red};{green};{blue}")),
    }
}
